"""Read the bytes of an answer as tokens, or as its own whole events; never take a cut for its end."""

from __future__ import annotations

import time
from typing import Callable, Generator, Iterable, Iterator

from flaskstream.dialects import Dialect, Reading
from flaskstream.errors import EventTooLarge, IdleTimeout, UpstreamError, UpstreamTruncated
from flaskstream.relay.follower import Follower
from flaskstream.relay.lane import Lane
from flaskstream.sse import MAX_EVENT_BYTES
from flaskstream.wire import Block


def nothing(*arguments: object) -> None:
    """Stand in for a callback that nobody wants."""


def tokens(
    chunks: Iterable[bytes],
    dialect: Dialect,
    on_whole: Callable[[], None] = nothing,
    hide: Callable[[str], str] = str,
    on_reading: Callable[[Reading], object] = nothing,
    content_timeout: float = 0.0,
    choices: int = 1,
) -> Generator[str, None, None]:
    """Yield the tokens of an answer as they arrive.

    Args:
        chunks: the bytes of the answer, cut anywhere.
        dialect: tells what its events mean.
        on_whole: called once, when no token will follow, before more is asked of `chunks`.
        hide: see `Follower`.
        on_reading: called with what each event says, before its token is yielded.
        content_timeout: seconds for which comments and pings may come in place of an answer; 0: any time.
        choices: how many answers were asked for.

    Raises:
        UpstreamTruncated: it ended before it was whole.
        IdleTimeout: it said nothing for too long.
        UpstreamError: the upstream reported an error, or broke off in another way.
        EventTooLarge: an event has no end.
    """
    follower = Follower(dialect, hide, choices)
    for _, readings in _followed(chunks, follower.feed, follower, on_whole, content_timeout):
        yield from _texts(readings, on_reading)
        _let_others_run(readings)


def batches(
    chunks: Iterable[bytes],
    dialect: Dialect,
    on_whole: Callable[[], None] = nothing,
    hide: Callable[[str], str] = str,
    on_reading: Callable[[Reading], object] = nothing,
    content_timeout: float = 0.0,
    choices: int = 1,
    lane: Lane | None = None,
) -> Generator[list[str], None, None]:
    """Yield the tokens that arrived together, as they arrive; args and errors are those of `tokens`.

    An empty list: nothing came while it was the turn of whoever takes, or nothing that says something. `lane` is told
    what goes on here.
    """
    follower = Follower(dialect, hide, choices)
    if lane is not None and not content_timeout:
        lane.follow(follower)
    for _, readings in _followed(chunks, follower.feed, follower, on_whole, content_timeout):
        batch: list[str] = []
        try:
            batch.extend(_texts(readings, on_reading))
        except UpstreamError:
            yield batch
            raise
        yield batch
        _let_others_run(readings)


def _texts(readings: Iterable[Reading], on_reading: Callable[[Reading], object]) -> Iterator[str]:
    for reading in readings:
        on_reading(reading)
        if reading.error is not None:
            raise UpstreamError(f"the upstream reported an error: {reading.error!r}")
        if reading.text:
            yield reading.text


def _let_others_run(readings: list[Reading]) -> None:
    """Wait for no time: an upstream that always has more to say, and says nothing, gives nobody else a turn."""
    if readings is not _NOTHING and not any(reading.text for reading in readings):
        time.sleep(0)


def blocks(
    chunks: Iterable[bytes],
    dialect: Dialect,
    on_whole: Callable[[], None] = nothing,
    hide: Callable[[str], str] = str,
    content_timeout: float = 0.0,
    choices: int = 1,
    lane: Lane | None = None,
) -> Generator[Block, None, None]:
    """Yield the answer's own bytes as they arrive, whole events only, its own errors among them.

    Args and errors are those of `tokens`, but for the errors that the upstream reports: they pass. `lane` is told what
    goes on here.
    """
    follower = Follower(dialect, hide, choices)
    buffer = bytearray()
    if lane is not None and not content_timeout:
        lane.follow(follower, buffer)
    said: list[Reading] = []
    lacks_lf = False
    for chunk, readings in _followed(_without_bom(chunks), follower.skim_or_feed, follower, on_whole, content_timeout):
        if readings is _NOTHING:
            yield NO_BLOCK
            continue
        if follower.has_skimmed and not buffer:  # it is whole events as it is
            yield Block(chunk, tokens=len(readings))
            continue
        searched = len(buffer)
        buffer += chunk[1:] if lacks_lf and chunk.startswith(b"\n") else chunk
        lacks_lf = lacks_lf and not chunk
        said += readings
        end = dialect.framing.end(buffer, searched)
        if end:
            lacks_lf = buffer[:end].endswith(_HALF_A_BLANK_LINE)
            block = _block(buffer[:end] + b"\n" if lacks_lf else buffer[:end], said)
            del buffer[:end]
            said = []
            yield block
        elif len(buffer) > MAX_EVENT_BYTES:  # also of comments, which no event holds
            raise EventTooLarge(f"expected an event of at most {MAX_EVENT_BYTES} bytes, got {len(buffer)} and no end")
        else:
            time.sleep(0)  # an upstream that always has more to say gives nobody else a turn
    if follower.tail:  # and not the buffer: it may hold half a line besides
        yield _block(follower.tail, said)


NO_BLOCK = Block(b"", is_answer=False)
"""Nothing came while it was the turn of whoever takes."""

_HALF_A_BLANK_LINE = b"\r\n\r"
"""Its LF is on its way, and is not waited for: we write it ourselves. Behind a heartbeat of ours it would be an empty
line of its own."""

_BOM = b"\xef\xbb\xbf"


def _without_bom(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks without a mark of byte order: it is one only at the beginning, where a heartbeat may stand."""
    start: bytes | None = b""  # what came so far, as long as it may be the mark
    for chunk in chunks:
        if start is None:
            yield chunk
            continue
        start += chunk
        if start != _BOM and _BOM.startswith(start):
            continue
        yield start[len(_BOM) :] if start.startswith(_BOM) else start
        start = None
    if start:
        yield start


def _block(data: bytes | bytearray, said: list[Reading]) -> Block:
    is_answer = any(reading.is_answer for reading in said)
    return Block(data, tokens=sum(bool(reading.text) for reading in said), is_answer=is_answer)


def _followed(
    chunks: Iterable[bytes],
    read: Callable[[bytes], list[Reading]],
    follower: Follower,
    on_whole: Callable[[], None],
    content_timeout: float,
) -> Iterator[tuple[bytes, list[Reading]]]:
    failure: UpstreamError | None = None
    patience = _Patience(content_timeout)
    try:
        for chunk in patience.watch(chunks):
            was_whole = follower.is_whole
            readings = read(chunk) if chunk else _NOTHING
            yield chunk, readings
            if follower.is_over:
                return
            if follower.is_whole and not was_whole:
                on_whole()
            patience.spend(readings)
    except UpstreamError as error:
        failure = error
    readings = follower.close(is_proper=failure is None)
    if not follower.is_whole:
        raise failure or UpstreamTruncated("expected the end of the answer from the upstream, got that of its bytes")
    # Else every token is here, and a failure is none: some servers leave out the end of the framing, or fall silent.
    yield b"", readings


_NOTHING: list[Reading] = []
"""What is said while nothing comes."""

_LARGER_THAN_A_PING = 1024  # bytes


class _Patience:
    """How long an upstream may send what keeps its connection alive and says nothing.

    Only the time that is spent waiting for it counts: a client that takes nothing for a while is not its fault. And a
    large event that comes slowly is part of an answer before it is whole.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waited = 0.0
        self._unread = 0  # bytes since the last event

    def watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        since = time.monotonic()
        for chunk in chunks:
            self._waited += time.monotonic() - since
            self._unread += len(chunk)
            yield chunk
            since = time.monotonic()

    def spend(self, readings: list[Reading]) -> None:
        is_large = not readings and self._unread > _LARGER_THAN_A_PING
        self._unread = 0 if readings else self._unread
        if is_large or any(reading.is_answer for reading in readings):
            self._waited = 0.0
        elif self._seconds and self._waited > self._seconds:
            raise IdleTimeout(f"expected some of the answer within {self._seconds:g} s, got comments and pings only")
