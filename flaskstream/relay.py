"""Between the upstream and the wire: tokens for our own events, or the upstream's own bytes, and never a false end."""

from __future__ import annotations

import json
import logging
import re
from contextlib import closing
from dataclasses import replace
from typing import Any, Callable, Generator, Iterable, Iterator, Mapping

from flaskstream.dialects import OPENAI, Dialect, Reading
from flaskstream.errors import EventTooLarge, UpstreamError, UpstreamTruncated
from flaskstream.sse import MAX_EVENT_BYTES, Decoder, Event, encode, encode_comment, end_of_blocks
from flaskstream.upstream import Answer, Upstream
from flaskstream.wire import describe

log = logging.getLogger(__name__)

TRAILING_SECONDS = 5.0
"""How long a whole answer is followed by silence before it ends without `[DONE]`: a usage chunk may still come, some
servers send nothing more, and some of these keep the connection open."""

_MAX_WARNINGS = 3  # for one answer: a page of HTML has many lines, and they say the same
_EXCERPT = 80  # characters: enough to recognise what came

Read = Callable[[Answer], Iterable[bytes]]


def _nothing(*arguments: object) -> None:
    """Stand in for a callback that nobody wants."""


class Follower:
    """Reads an answer event by event, and knows whether it has been told its end. Pure.

    Args:
        dialect: tells what an event means.
        hide: makes secrets in the upstream's text unreadable, before any of it goes to the log.

    Attributes:
        is_over: nothing follows: there is no need to wait for the connection to end.
        tail: after `close()`: the last event, whole and written anew, if only its blank line was left out.
    """

    def __init__(self, dialect: Dialect, hide: Callable[[str], str] = str) -> None:
        self._dialect = dialect
        self._hide = hide
        self._decoder = Decoder("llm", on_ignored_line=self._warn_of_line)
        self._warnings = 0
        self._begun: set[int] = set()
        self._finished: set[int] = set()
        self._failed = False
        self.is_over = False
        self.tail = b""

    @property
    def is_whole(self) -> bool:
        """The upstream said that the answer is complete, or that it failed: no token is missing unmentioned."""
        return self.is_over or self._failed or (bool(self._finished) and self._begun <= self._finished)

    def feed(self, data: bytes) -> list[Reading]:
        """Return what these bytes say. Raises `EventTooLarge`."""
        return self._read_all(self._decoder.feed(data))

    def close(self) -> list[Reading]:
        """Return what was left to say at the end of the bytes. Raises `EventTooLarge`."""
        events = [] if self.is_over else self._decoder.close()
        self.tail = b"".join(map(encode, events))
        return self._read_all(events)

    def _read_all(self, events: list[Event]) -> list[Reading]:
        readings = []
        for event in events:
            if not self.is_over:
                readings.append(self._read(event))
        return readings

    def _read(self, event: Event) -> Reading:
        reading = self._dialect.read(event)
        if reading.malformed:
            self._warn(f"an event of the dialect {self._dialect.name}", event.data)
        if reading.error is not None:
            reading = replace(reading, error=self._excerpt(reading.error))
        self._begun.update(reading.choices)
        self._finished.update(reading.finished)
        self._failed = self._failed or reading.error is not None
        self.is_over = self.is_over or reading.last
        return reading

    def _warn_of_line(self, line: str) -> None:
        self._warn("a line of an event stream", line)

    def _warn(self, expected: str, got: str) -> None:
        self._warnings += 1
        if self._warnings <= _MAX_WARNINGS:
            log.warning("expected %s from the upstream, got %r: it was left out", expected, self._excerpt(got))

    def _excerpt(self, text: str) -> str:
        return self._hide(text)[:_EXCERPT]


def tokens(
    chunks: Iterable[bytes],
    dialect: Dialect,
    on_whole: Callable[[], None] = _nothing,
    hide: Callable[[str], str] = str,
) -> Generator[str, None, None]:
    """Yield the tokens of an answer as they arrive.

    Args:
        chunks: the bytes of the answer, cut anywhere.
        dialect: tells what its events mean.
        on_whole: called once, when no token will follow, before more is asked of `chunks`.
        hide: see `Follower`.

    Raises:
        UpstreamTruncated: it ended before it was whole.
        UpstreamError: the upstream reported an error, or broke off in another way.
        EventTooLarge: an event has no end.
    """
    follower = Follower(dialect, hide)
    for _, readings in _followed(chunks, follower, on_whole):
        yield from _texts(readings)


def _texts(readings: Iterable[Reading]) -> Iterator[str]:
    for reading in readings:
        if reading.error is not None:
            raise UpstreamError(f"the upstream reported an error: {reading.error}")
        if reading.text:
            yield reading.text


def blocks(
    chunks: Iterable[bytes],
    dialect: Dialect,
    on_whole: Callable[[], None] = _nothing,
    hide: Callable[[str], str] = str,
) -> Generator[bytes, None, None]:
    """Yield the answer's own bytes as they arrive, whole events only, its own errors among them.

    Args and errors are those of `tokens`, but for the errors that the upstream reports: they pass.
    """
    follower = Follower(dialect, hide)
    buffer = bytearray()
    for chunk, _ in _followed(chunks, follower, on_whole):
        searched = len(buffer)
        buffer += chunk
        end = end_of_blocks(buffer, searched)
        if end:
            yield bytes(buffer[:end])
            del buffer[:end]
    if follower.tail:  # and not the buffer: it may hold half a line besides
        yield follower.tail


def _followed(
    chunks: Iterable[bytes], follower: Follower, on_whole: Callable[[], None]
) -> Iterator[tuple[bytes, list[Reading]]]:
    failure: UpstreamError | None = None
    try:
        for chunk in chunks:
            was_whole = follower.is_whole
            yield chunk, follower.feed(chunk)
            if follower.is_over:
                return
            if follower.is_whole and not was_whole:
                on_whole()
    except UpstreamError as error:
        failure = error
    readings = follower.close()
    if not follower.is_whole:
        raise failure or UpstreamTruncated("expected the end of the answer from the upstream, got that of its bytes")
    # Else every token is here, and a failure is none: some servers leave out the end of the framing, or fall silent.
    yield b"", readings


class Relay:
    """Asks an upstream and hands its answer on.

    Args:
        upstream: whom to ask.
        dialect: what it speaks.
        read: how an answer is read; to be replaced by whoever wants to see what goes wrong otherwise.
    """

    def __init__(self, upstream: Upstream, dialect: Dialect = OPENAI, read: Read = Answer.chunks) -> None:
        self.upstream = upstream
        self.dialect = dialect
        self._read = read

    def tokens(self, payload: dict[str, Any]) -> Iterator[str]:
        """Ask, and yield the tokens. Nothing happens before the first one is asked for.

        Raises:
            UpstreamError, EventTooLarge: see `tokens` above, and `Upstream.open`.
        """
        with self._ask(payload) as answer:
            yield from self._followed(tokens, answer)

    def blocks(
        self, payload: dict[str, Any], on_head: Callable[[Mapping[str, str]], object] = _nothing
    ) -> Iterator[bytes]:
        """Ask, and yield the answer's own bytes; errors as for `tokens`.

        Args:
            payload: what is asked.
            on_head: called with the headers that a client may have, before the first bytes.
        """
        with self._ask(payload) as answer:
            on_head(answer.forwarded_headers)
            yield from map(self.upstream.hide_key, self._followed(blocks, answer))

    def whole(self, payload: dict[str, Any]) -> tuple[bytes, Mapping[str, str]]:
        """Ask for an answer that does not stream; return its JSON object and the headers that a client may have.

        Raises:
            UpstreamError: also when its body is none: nothing else tells a cut body that ends with its connection.
            EventTooLarge: it is larger than one event may be.
        """
        with self.upstream.open(self.dialect.path, payload) as answer:
            answer.expect_type("application/json")
            body = bytearray()
            for chunk in answer.chunks():
                body += chunk
                if len(body) > MAX_EVENT_BYTES:
                    raise EventTooLarge(f"expected an answer of at most {MAX_EVENT_BYTES} bytes, got more")
        if not _is_json_object(body):
            raise UpstreamTruncated(f"expected a whole JSON object from the upstream, got {len(body)} bytes of none")
        return self.upstream.hide_key(bytes(body)), answer.forwarded_headers

    def _ask(self, payload: dict[str, Any]) -> Answer:
        answer = self.upstream.open(self.dialect.path, {**payload, "stream": True})
        try:
            answer.expect_stream()
        except UpstreamError:
            answer.close()
            raise
        return answer

    def _followed(self, follow: Callable[..., Generator[Any, None, None]], answer: Answer) -> Iterator[Any]:
        def wait_less() -> None:
            answer.wait_at_most(TRAILING_SECONDS)

        with closing(follow(self._read(answer), self.dialect, wait_less, self._hide)) as items:
            yield from items
        answer.drain()

    def _hide(self, text: str) -> str:
        return self.upstream.hide_key(text.encode("utf-8", "replace")).decode()


def _is_json_object(body: bytearray) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


_ID_LINE = re.compile(rb"(?:^|[\r\n])id:")


class FaithfulWire:
    """The upstream's own bytes and errors; a failed stream is cut too, for its clients know no event of ours."""

    cuts = True

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._has_ids = False

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        return source

    def frame(self, item: bytes) -> bytes:
        self._has_ids = self._has_ids or _ID_LINE.search(item) is not None
        return item

    def comment(self, text: str) -> bytes:
        return encode_comment(text, block=not self._has_ids)

    def done(self, stream_id: str) -> bytes:
        return b""  # the upstream's own mark has gone through

    def failed(self, error: Exception, stream_id: str) -> bytes:
        known = describe(error, stream_id)
        return self._dialect.error_event(known["code"], f"{known['message']} ({stream_id})")
