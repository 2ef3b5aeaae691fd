"""Between the upstream and the wire: tokens for our own events, or the upstream's own bytes, and never a false end."""

from __future__ import annotations

import functools
import json
import logging
import re
import time
from contextlib import closing
from dataclasses import replace
from typing import Any, Callable, Generator, Iterable, Iterator, Mapping

from flaskstream.dialects import OPENAI, Dialect, Reading
from flaskstream.errors import EventTooLarge, UpstreamError, UpstreamTruncated
from flaskstream.sse import MAX_EVENT_BYTES, Event, encode_comment
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
        self._decoder = dialect.framing.decoder(self._warn_of_line)
        self._warnings = 0
        self._begun: set[int] = set()
        self._finished: set[int] = set()
        self._failed = False
        self._body_ended = False
        self.is_over = False
        self.tail = b""

    @property
    def is_whole(self) -> bool:
        """The upstream said that the answer is complete, or that it failed: no token is missing unmentioned."""
        all_finished = bool(self._finished) and self._begun <= self._finished
        return self.is_over or self._failed or self._body_ended or all_finished

    def feed(self, data: bytes) -> list[Reading]:
        """Return what these bytes say. Raises `EventTooLarge`."""
        return self._read_all(self._decoder.feed(data))

    def close(self, is_proper: bool = True) -> list[Reading]:
        """Return what was left to say at the end of the bytes.

        Args:
            is_proper: the body has told its end by its framing: in some dialects nothing else tells that of the answer.

        Raises:
            EventTooLarge: an event had no end.
        """
        if self.is_over:
            return []
        events = self._decoder.close()
        self._body_ended = self._dialect.ends_with_body and is_proper and not self._decoder.truncated
        self.tail = b"".join(map(self._dialect.framing.encode, events))
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
    on_reading: Callable[[Reading], object] = _nothing,
) -> Generator[str, None, None]:
    """Yield the tokens of an answer as they arrive.

    Args:
        chunks: the bytes of the answer, cut anywhere.
        dialect: tells what its events mean.
        on_whole: called once, when no token will follow, before more is asked of `chunks`.
        hide: see `Follower`.
        on_reading: called with what each event says, before its token is yielded.

    Raises:
        UpstreamTruncated: it ended before it was whole.
        UpstreamError: the upstream reported an error, or broke off in another way.
        EventTooLarge: an event has no end.
    """
    follower = Follower(dialect, hide)
    for _, readings in _followed(chunks, follower, on_whole):
        yield from _texts(readings, on_reading)
        if not any(reading.text for reading in readings):
            time.sleep(0)  # an upstream that always has more to say gives nobody else a turn


def _texts(readings: Iterable[Reading], on_reading: Callable[[Reading], object]) -> Iterator[str]:
    for reading in readings:
        on_reading(reading)
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
        end = dialect.framing.end(buffer, searched)
        if end:
            yield bytes(buffer[:end])
            del buffer[:end]
        elif len(buffer) > MAX_EVENT_BYTES:  # also of comments, which no event holds
            raise EventTooLarge(f"expected an event of at most {MAX_EVENT_BYTES} bytes, got {len(buffer)} and no end")
        else:
            time.sleep(0)  # an upstream that always has more to say gives nobody else a turn
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
    readings = follower.close(is_proper=failure is None)
    if not follower.is_whole:
        raise failure or UpstreamTruncated("expected the end of the answer from the upstream, got that of its bytes")
    # Else every token is here, and a failure is none: some servers leave out the end of the framing, or fall silent.
    yield b"", readings


def _without_end(chunks: Iterable[bytes]) -> Iterator[bytes]:
    yield from chunks
    raise UpstreamTruncated("expected a framed body from an upstream without a terminal mark, got the connection's end")


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

    def speaking(self, dialect: Dialect) -> Relay:
        """Return a relay that asks the same upstream in this dialect; itself if it does, maybe in its own way."""
        return self if dialect.name == self.dialect.name else Relay(self.upstream, dialect, self._read)

    def tokens(self, payload: dict[str, Any], on_reading: Callable[[Reading], object] = _nothing) -> Iterator[str]:
        """Ask, and yield the tokens. Nothing happens before the first one is asked for.

        Args:
            payload: `{"model": ..., "messages": [...]}` and whatever else the upstream understands.
            on_reading: called with what each event says, before its token: calls of tools and the usage are there.

        Raises:
            UpstreamError, EventTooLarge: see `tokens` above, and `Upstream.open`.
        """
        with self._ask(self.dialect.request(payload)) as answer:
            yield from self._followed(functools.partial(tokens, on_reading=on_reading), answer)

    def blocks(
        self,
        payload: dict[str, Any],
        on_head: Callable[[Mapping[str, str]], object] = _nothing,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[bytes]:
        """Ask, and yield the answer's own bytes; errors as for `tokens`.

        Args:
            payload: what is asked, in the upstream's own form.
            on_head: called with the headers that a client may have, before the first bytes.
            headers: sent with the request, in place of the dialect's.
        """
        with self._ask(payload, headers) as answer:
            on_head(answer.forwarded_headers)
            yield from map(self.upstream.hide_key, self._followed(blocks, answer))

    def whole(
        self, payload: dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> tuple[bytes, Mapping[str, str]]:
        """Ask for an answer that does not stream; return its JSON object and the headers that a client may have.

        Args:
            payload, headers: as for `blocks`.

        Raises:
            UpstreamError: also when its body is none: nothing else tells a cut body that ends with its connection.
            EventTooLarge: it is larger than one event may be.
        """
        with self._open(payload, headers) as answer:
            answer.expect_type("application/json")
            body = bytearray()
            for chunk in answer.chunks():
                body += chunk
                if len(body) > MAX_EVENT_BYTES:
                    raise EventTooLarge(f"expected an answer of at most {MAX_EVENT_BYTES} bytes, got more")
        if not _is_json_object(body):
            raise UpstreamTruncated(f"expected a whole JSON object from the upstream, got {len(body)} bytes of none")
        return self.upstream.hide_key(bytes(body)), answer.forwarded_headers

    def _open(self, payload: dict[str, Any], headers: Mapping[str, str] | None) -> Answer:
        dialect = self.dialect
        return self.upstream.open(
            dialect.path, payload, headers={**dialect.headers, **(headers or {})}, key_header=dialect.key_header
        )

    def _ask(self, payload: dict[str, Any], headers: Mapping[str, str] | None = None) -> Answer:
        answer = self._open({**payload, "stream": True}, headers)
        try:
            answer.expect_stream(*self.dialect.framing.types)
        except UpstreamError:
            answer.close()
            raise
        return answer

    def _followed(self, follow: Callable[..., Generator[Any, None, None]], answer: Answer) -> Iterator[Any]:
        def wait_less() -> None:
            answer.wait_at_most(TRAILING_SECONDS)

        chunks = self._read(answer)
        if self.dialect.ends_with_body and not answer.is_framed:
            chunks = _without_end(chunks)
        with closing(follow(chunks, self.dialect, wait_less, self._hide)) as items:
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
