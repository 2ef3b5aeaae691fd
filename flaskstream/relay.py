"""Between the upstream and the wire: tokens for our own events, or the upstream's own bytes, and never a false end."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import Any, Callable, Generator, Iterable, Iterator

from flaskstream.dialects import OPENAI, Dialect, Reading
from flaskstream.errors import UpstreamError, UpstreamTruncated
from flaskstream.sse import Decoder, Event, encode_comment, end_of_blocks
from flaskstream.upstream import Answer, Upstream
from flaskstream.wire import describe

log = logging.getLogger(__name__)

Read = Callable[[Answer], Iterable[bytes]]


class Follower:
    """Reads an answer event by event, and knows whether it has been told its end. Pure.

    Args:
        dialect: tells what an event means.

    Attributes:
        is_whole: the upstream said that the answer is complete, or that it failed: no token is missing unmentioned.
        is_over: nothing follows: there is no need to wait for the connection to end.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._decoder = Decoder("llm", on_ignored_line=_warn_of_line)
        self.is_whole = False
        self.is_over = False

    def feed(self, data: bytes) -> list[Reading]:
        """Return what these bytes say. Raises `EventTooLarge`."""
        return [self._read(event) for event in self._decoder.feed(data)]

    def close(self) -> list[Reading]:
        """Return what was left to say. Raises `UpstreamTruncated` if the end was not told."""
        readings = [self._read(event) for event in self._decoder.close()]
        if not self.is_whole:
            raise UpstreamTruncated("expected the end of the answer from the upstream, got the end of its bytes")
        return readings

    def _read(self, event: Event) -> Reading:
        reading = self._dialect.read(event)
        if reading.malformed is not None:
            log.warning("expected an event of the dialect %s, got %r", self._dialect.name, reading.malformed)
        self.is_whole = self.is_whole or reading.finished or reading.error is not None
        self.is_over = self.is_over or reading.last
        return reading


def _warn_of_line(line: str) -> None:
    log.warning("expected a line of an event stream from the upstream, got %r", line[:80])


def tokens(chunks: Iterable[bytes], dialect: Dialect) -> Generator[str, None, None]:
    """Yield the tokens of an answer as they arrive.

    Raises:
        UpstreamTruncated: it ended before it was whole.
        UpstreamError: the upstream reported an error, or broke off in another way.
    """
    for _, readings in _followed(chunks, dialect):
        for reading in readings:
            if reading.error is not None:
                raise UpstreamError(f"the upstream reported an error: {reading.error}")
            if reading.text:
                yield reading.text


def blocks(chunks: Iterable[bytes], dialect: Dialect) -> Generator[bytes, None, None]:
    """Yield the answer's own bytes as they arrive, whole events only, its own errors among them.

    Raises:
        UpstreamTruncated: it ended before it was whole.
        UpstreamError: it broke off in another way.
    """
    buffer = b""
    for chunk, _ in _followed(chunks, dialect):
        searched = len(buffer)
        buffer += chunk
        end = end_of_blocks(buffer, searched)
        if end:
            yield buffer[:end]
            buffer = buffer[end:]
    if buffer:
        yield buffer + b"\n\n"  # the answer is whole, and only its last blank line was left out


def _followed(chunks: Iterable[bytes], dialect: Dialect) -> Iterator[tuple[bytes, list[Reading]]]:
    follower = Follower(dialect)
    try:
        for chunk in chunks:
            yield chunk, follower.feed(chunk)
            if follower.is_over:
                return
    except UpstreamTruncated:
        if not follower.is_whole:
            raise  # else every token is here: some servers leave out the end of their framing
    yield b"", follower.close()


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
        """Ask, and yield the tokens. Nothing happens before the first one is asked for. Raises `UpstreamError`."""
        with self._ask(payload) as answer, closing(tokens(self._read(answer), self.dialect)) as texts:
            yield from texts

    def blocks(self, payload: dict[str, Any]) -> Iterator[bytes]:
        """Ask, and yield the answer's own bytes. Raises `UpstreamError`."""
        with self._ask(payload) as answer, closing(blocks(self._read(answer), self.dialect)) as pieces:
            yield from pieces

    def _ask(self, payload: dict[str, Any]) -> Answer:
        answer = self.upstream.open(self.dialect.path, {**payload, "stream": True})
        try:
            answer.expect_stream()
        except UpstreamError:
            answer.close()
            raise
        return answer


class FaithfulWire:
    """The upstream's own bytes and errors; a failed stream is cut too, for its clients know no event of ours."""

    cuts = True

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        return source

    def frame(self, item: bytes) -> bytes:
        return item

    def comment(self, text: str) -> bytes:
        return encode_comment(text)

    def done(self, stream_id: str) -> bytes:
        return b""  # the upstream's own mark has gone through

    def failed(self, error: Exception, stream_id: str) -> bytes:
        known = describe(error, stream_id)
        return self._dialect.error_event(known["code"], f"{known['message']} ({stream_id})")
