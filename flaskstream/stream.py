"""One stream on its way out: it takes from the pump, writes the wire, and ends exactly once."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from flaskstream.debug import DebugPrinter
from flaskstream.disconnect import watch_client
from flaskstream.pump import ENDED, NOTHING, Pump, Signal
from flaskstream.wire import HEARTBEAT, Wire, describe

log = logging.getLogger(__name__)


CLIENT_ENDED = Signal("CLIENT_ENDED")
"""The client has shut down its side. Whether it still reads shows when something is written to it."""
CLIENT_GONE = Signal("CLIENT_GONE")
"""Its connection is dead."""


@dataclass(frozen=True)
class StreamReport:
    """How a stream went; given to `on_end`, once for each stream.

    Attributes:
        stream_id: the id in the log, in debug lines and in the client's `event: error`.
        reason: "done", "error" or "client_gone".
        code: of the error; `None` without one.
        events: that were handed to the server, without heartbeats and the closing event.
        bytes: of these events, before chunking and compression.
        first_event_ms: from the request to the first event; `None`: there was none.
        duration_ms: from the request to the end.
    """

    stream_id: str
    reason: str
    code: str | None
    events: int
    bytes: int
    first_event_ms: float | None
    duration_ms: float


class _Tally:
    """What a stream's report will say, while it is not yet known."""

    def __init__(self, stream_id: str, started_at: float | None) -> None:
        self.stream_id = stream_id
        self.events = 0
        self.reason = "client_gone"
        self._code: str | None = None
        self._bytes = 0
        self._started_at = time.monotonic() if started_at is None else started_at
        self._first_event_ms: float | None = None

    def count(self, frame: bytes) -> None:
        self.events += 1
        self._bytes += len(frame)
        if self._first_event_ms is None:
            self._first_event_ms = self._milliseconds()

    def fail(self, error: Exception) -> None:
        self.reason = "error"
        self._code = describe(error, self.stream_id)["code"]

    def report(self) -> StreamReport:
        return StreamReport(
            stream_id=self.stream_id,
            reason=self.reason,
            code=self._code,
            events=self.events,
            bytes=self._bytes,
            first_event_ms=self._first_event_ms,
            duration_ms=self._milliseconds(),
        )

    def _milliseconds(self) -> float:
        return (time.monotonic() - self._started_at) * 1000


class Stream:
    """The body of a streaming response: an iterator of bytes with a `close`.

    Args:
        pump: where the items come from.
        wire: how they are written.
        stream_id: for the log, the debug lines and the client's error event.
        heartbeat: seconds of silence after which a comment goes out; `None`: never.
        printer: prints a line for each event; `None`: no lines.
        on_end: called with the report. It runs in the server's thread, outside of the request.
        started_at: when the request came, in seconds of the monotonic clock; `None`: now.
        client: the client's socket, to notice at once that it has gone; `None`: the next writes will notice.
    """

    def __init__(
        self,
        pump: Pump,
        wire: Wire,
        stream_id: str,
        heartbeat: float | None = None,
        printer: DebugPrinter | None = None,
        on_end: Callable[[StreamReport], None] | None = None,
        started_at: float | None = None,
        client: Any = None,
    ) -> None:
        self.stream_id = stream_id
        self._pump = pump
        self._on_end = on_end
        self._tally = _Tally(stream_id, started_at)
        # Functions, and no methods: a generator that held this stream would keep it alive when it is dropped.
        self._frames = _with_end(_frames(pump, wire, self._tally, heartbeat, printer), wire, self._tally)
        self._is_closed = False
        # `wake` alone, and not this stream: what holds the socket must not keep a dropped stream alive.
        wake = pump.wake
        self._stop_watching = watch_client(client, lambda is_dead: wake(CLIENT_GONE if is_dead else CLIENT_ENDED))

    def wait_for_first_item(self, seconds: float) -> None:
        """Wait for the first item, as long as its failure can still become an HTTP status.

        Raises:
            Exception: what the generator raised before its first item.
        """
        try:
            if self._pump.peek(seconds) is CLIENT_GONE:
                self._pump.wake(CLIENT_GONE)  # for the frames, which end with it
        except Exception as error:
            self._tally.fail(error)
            self.close()
            raise

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> bytes:
        if self._is_closed:
            raise StopIteration
        try:
            return next(self._frames)
        except BaseException:  # also StopIteration: not every server calls close()
            self.close()
            raise

    def close(self) -> None:
        """Have the generator closed, and report. Safe to call at any time and any number of times."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_watching()
        self._pump.close()
        if self._on_end is not None:
            try:
                self._on_end(self._tally.report())
            except Exception:
                log.exception("stream %s: on_end failed", self.stream_id)

    def __del__(self) -> None:  # for a server or middleware that forgets to close
        self.close()


def _with_end(frames: Iterator[bytes], wire: Wire, tally: _Tally) -> Iterator[bytes]:
    try:
        yield from frames
    except _ClientGone:
        return  # nobody reads an end
    except Exception as error:  # and not GeneratorExit: then the client has gone, and nothing may be yielded
        log.error("stream %s failed: %r", tally.stream_id, error, exc_info=error)
        tally.fail(error)
        yield wire.failed(error, tally.stream_id)
        if wire.cuts:
            raise  # the server closes the connection without its proper end
    else:
        tally.reason = "done"
        last = wire.done(tally.stream_id)
        if last:
            yield last


def _frames(
    pump: Pump, wire: Wire, tally: _Tally, heartbeat: float | None, printer: DebugPrinter | None
) -> Iterator[bytes]:
    item = pump.take(0)
    if item is NOTHING:
        yield wire.comment("open")  # the headers leave with the first byte
        item = pump.take(heartbeat)
    while item is not ENDED:
        if item is CLIENT_GONE:
            raise _ClientGone
        if isinstance(item, Signal):
            yield wire.comment(HEARTBEAT)  # after a silence, or to hear from the client whether it has gone
        else:
            yield _frame(item, wire, tally, printer)
        item = pump.take(heartbeat)


class _ClientGone(Exception):
    pass


def _frame(item: Any, wire: Wire, tally: _Tally, printer: DebugPrinter | None) -> bytes:
    frame = wire.frame(item)
    tally.count(frame)
    if printer is not None:
        printer(tally.stream_id, tally.events, frame)
    return frame
