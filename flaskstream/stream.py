"""One stream on its way out: it takes from the pump, writes the wire, and ends exactly once."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Callable, Generator, Iterator

from flaskstream.debug import DebugPrinter
from flaskstream.pump import ENDED, NOTHING, Pump
from flaskstream.wire import HEARTBEAT, Wire, describe

log = logging.getLogger(__name__)


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


class Stream:
    """The body of a streaming response: an iterator of bytes with a `close`.

    Args:
        pump: where the items come from.
        wire: how they are written.
        stream_id: for the log, the debug lines and the client's error event.
        heartbeat: seconds of silence after which a comment goes out; `None`: never.
        printer: prints a line for each event; `None`: no lines.
        on_end: called with the report. It runs in the server's thread, outside of the request.
    """

    def __init__(
        self,
        pump: Pump,
        wire: Wire,
        stream_id: str,
        heartbeat: float | None = None,
        printer: DebugPrinter | None = None,
        on_end: Callable[[StreamReport], None] | None = None,
    ) -> None:
        self._started_at = time.monotonic()
        self._pump = pump
        self._wire = wire
        self.stream_id = stream_id
        self._heartbeat = heartbeat
        self._printer = printer
        self._on_end = on_end
        self._first: Any = NOTHING
        self._events = 0
        self._bytes = 0
        self._first_event_at: float | None = None
        self._reason = "client_gone"
        self._code: str | None = None
        self._ended = False
        self._frames: Generator[bytes, None, None] = self._write()

    def wait_for_first_item(self, seconds: float) -> None:
        """Wait for the first item, as long as its failure can still become an HTTP status.

        Raises:
            Exception: what the generator raised before its first item.
        """
        try:
            self._first = self._pump.take(seconds)
        except Exception as error:
            self._fail(error)
            self.close()
            raise

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._frames)
        except BaseException:  # also StopIteration: not every server calls close()
            self.close()
            raise

    def close(self) -> None:
        """Close the generator and report. Safe to call at any time and any number of times."""
        self._frames.close()
        if self._ended:
            return
        self._ended = True
        self._pump.close()
        if self._on_end is not None:
            try:
                self._on_end(self._report())
            except Exception:
                log.exception("stream %s: on_end failed", self.stream_id)

    def __del__(self) -> None:  # for a server or middleware that forgets to close
        self.close()

    def _write(self) -> Generator[bytes, None, None]:
        try:
            yield from self._item_frames()
        except Exception as error:  # and not GeneratorExit: then the client has gone, and nothing may be yielded
            log.error("stream %s failed: %r", self.stream_id, error, exc_info=error)
            self._fail(error)
            yield self._wire.failed(error, self.stream_id)
            if self._wire.cuts:
                raise  # the server closes the connection without its proper end
        else:
            self._reason = "done"
            last = self._wire.done(self.stream_id)
            if last:
                yield last

    def _item_frames(self) -> Iterator[bytes]:
        item, self._first = self._first, NOTHING
        if item is NOTHING:
            yield self._wire.comment("open")
        while item is not ENDED:
            if item is not NOTHING:
                yield self._frame(item)
            item = self._pump.take(self._heartbeat)
            if item is NOTHING:
                yield self._wire.comment(HEARTBEAT)

    def _frame(self, item: Any) -> bytes:
        frame = self._wire.frame(item)
        self._events += 1
        self._bytes += len(frame)
        if self._first_event_at is None:
            self._first_event_at = time.monotonic()
        if self._printer is not None:
            self._printer(self.stream_id, self._events, frame)
        return frame

    def _fail(self, error: Exception) -> None:
        self._reason = "error"
        self._code = describe(error, self.stream_id)["code"]

    def _report(self) -> StreamReport:
        first = self._first_event_at
        return StreamReport(
            stream_id=self.stream_id,
            reason=self._reason,
            code=self._code,
            events=self._events,
            bytes=self._bytes,
            first_event_ms=None if first is None else (first - self._started_at) * 1000,
            duration_ms=(time.monotonic() - self._started_at) * 1000,
        )
