"""One stream on its way out: it takes from the pump, writes the wire, and ends exactly once."""

from __future__ import annotations

import logging
import time
from typing import Callable, Iterator, Sequence

from flaskstream.debug import DebugPrinter
from flaskstream.errors import AlreadyLogged, FlaskStreamError, MaxDuration, ShuttingDown, UpstreamError
from flaskstream.express import Express, Outlet
from flaskstream.options import StreamOptions
from flaskstream.pump import EndedOtherwise, Pump
from flaskstream.signals import ENDED, NOTHING, ClientGone, Signal
from flaskstream.tally import CLIENT, SOURCE, StreamReport, Tally, counted_frame
from flaskstream.waiting import Turn
from flaskstream.wire import Wire

__all__ = ["Stream", "StreamReport", "log_failure"]

log = logging.getLogger(__name__)


HALF_CLOSED_SECONDS = 0.1
"""Until the next heartbeat, once the client has shut down its side; each one after it takes twice as long. Most have
gone, or go now, and only a write shows it."""

_LONGEST_SOON = 15.0  # seconds, where there are no heartbeats else

CLIENT_ENDED = Signal("CLIENT_ENDED")
"""The client has shut down its side. Whether it still reads shows when something is written to it."""
CLIENT_GONE = Signal("CLIENT_GONE")
"""Its connection is dead."""
STOPPING = Signal("STOPPING")
"""The process stops."""

RESTART = "restart"
"""Its client is asked to come back: whatever end its source has, it is heard there."""


class Stream:
    """The body of a streaming response: an iterator of bytes with a `close`.

    Args:
        pump: where the items come from.
        wire: how they are written.
        stream_id: for the log, the debug lines and the client's error event.
        options: see `StreamOptions`.
        started_at: when the request came, in seconds of the monotonic clock.
        at_end: called when it has ended, in this order.
        turn: that its source may begin.
    """

    def __init__(
        self,
        pump: Pump,
        wire: Wire,
        stream_id: str,
        options: StreamOptions,
        started_at: float,
        at_end: Sequence[Callable[[], None]] = (),
        turn: Turn | None = None,
    ) -> None:
        self._turn = None if options.printer is not None else turn
        self.stream_id = stream_id
        self._pump = pump
        self._wire = wire
        self._at_end = at_end
        self._on_end = options.on_end
        self._tally = Tally(stream_id, started_at, counted=wire.counted)
        # Functions, and no methods: a generator that held this stream would keep it alive when it is dropped.
        self._waits = _Waits(options, started_at)
        self._frames = _frames(pump, wire, self._tally, self._waits, options.printer)
        self._is_closed = False

    def wait_for_first_item(self, seconds: float) -> bool:
        """Wait for the first item, as long as its failure can still become an HTTP status; return whether it is there.

        Raises:
            Exception: what the generator raised before its first item, or `MaxDuration`.
        """
        try:
            item = self._pump.peek(self._waits.at_most(seconds))
            if item is STOPPING and not self._wire.restart:
                raise ShuttingDown("expected the first item in time, got the end of this worker")
            if item is NOTHING:
                self._waits.next(time.monotonic())
            return not isinstance(item, Signal)
        except EndedOtherwise as end:
            self._frames = _last_words(end, self._wire, self._tally)
            return False
        except Exception as error:
            self._tally.fail(error)
            self.close()
            raise

    def frames(self, outlet: Outlet | None) -> Iterator[bytes]:
        """Return what it yields, for who closes it at their end, whatever that is.

        Args:
            outlet: where the server sends them, if nothing is between; some go there by themselves.
        """
        if outlet is not None and self._turn is not None:
            self._turn.express = Express(self._turn, self._wire, self._tally, self._waits.next, outlet)
        return iter(()) if self._is_closed else self._frames

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
        for release in self._at_end:
            release()
        self._pump.close()
        if self._turn is not None and not self._turn.has_begun:
            self._turn.end()
        late = self._waits.overdue()
        if late is not None and self._tally.reason == "client_gone":  # its connection was shut down for that
            log_failure(late, self.stream_id, f"after {self._tally.events} events, and its client took no end")
            self._tally.fail(late)
        report = self._tally.end()
        if self._on_end is not None:
            try:
                self._on_end(report)
            except Exception:
                log.exception("stream %s: on_end failed", self.stream_id)

    def __del__(self) -> None:  # for a server or middleware that forgets to close
        self.close()


def log_failure(error: Exception, stream_id: str, when: str) -> None:
    """Log why a stream failed: in one line where that says it all, with the traceback where it does not."""
    if isinstance(error, AlreadyLogged):
        log.info("stream %s failed %s: %s", stream_id, when, error)
    elif isinstance(error, FlaskStreamError) and error.code != FlaskStreamError.code:
        asked = f" (asked: {error.asked})" if isinstance(error, UpstreamError) and error.asked else ""
        log.error("stream %s failed %s: %s: %s%s", stream_id, when, error.code, error, asked)
        log.debug("stream %s: its traceback", stream_id, exc_info=error)
    else:
        log.error("stream %s failed %s: %r", stream_id, when, error, exc_info=error)


def _frames(pump: Pump, wire: Wire, tally: Tally, waits: _Waits, printer: DebugPrinter | None) -> Iterator[bytes]:
    """Yield what is written: one generator for all of it, for each one around it costs something for every token."""
    try:
        tally.waits_for(SOURCE)
        item = pump.take(0)
        if item is NOTHING:
            tally.waits_for(CLIENT)
            yield wire.opening()  # the headers leave with the first byte
            item = pump.take(waits.next(tally.waits_for(SOURCE)))
        while item is not ENDED:
            tally.waits_for(CLIENT)
            if item is STOPPING and wire.restart:
                yield wire.restart
                raise EndedOtherwise(RESTART)
            if isinstance(item, Signal):
                yield _answer_to(item, wire, tally, waits)
            else:
                yield counted_frame(item, wire, tally, printer)
            item = pump.take(waits.next(tally.waits_for(SOURCE)))
        tally.waits_for(CLIENT)
    except ClientGone:
        return  # nobody reads an end
    except EndedOtherwise as end:
        yield from _last_words(end, wire, tally)
    except Exception as error:  # and not GeneratorExit: then the client has gone, and nothing may be yielded
        log_failure(error, tally.stream_id, f"after {tally.events} events")
        tally.fail(error)
        yield wire.failed(error, tally.stream_id)
        if wire.cuts:
            raise  # the server closes the connection without its proper end
    else:
        yield from _last_words(EndedOtherwise("done"), wire, tally)


def _answer_to(signal: Signal, wire: Wire, tally: Tally, waits: _Waits) -> bytes:
    """Return what is written when there is no item."""
    if signal is CLIENT_GONE:
        raise ClientGone
    if signal is CLIENT_ENDED:
        waits.look_soon()
    if signal is STOPPING:
        raise ShuttingDown("expected the end of the generator in time, got the end of this worker")
    return _heartbeat(wire, tally)


def _last_words(end: EndedOtherwise, wire: Wire, tally: Tally) -> Iterator[bytes]:
    tally.reason = end.reason
    last = b"" if end.reason == RESTART else wire.done(tally.stream_id)
    if last:
        yield last


class _Waits:
    """How long to wait for the next item."""

    def __init__(self, options: StreamOptions, started_at: float) -> None:
        self._heartbeat = options.heartbeat or None
        self._soon: float | None = None
        self._max_duration = options.max_duration
        self._deadline = started_at + options.max_duration if options.max_duration else None

    def at_most(self, seconds: float) -> float:
        return seconds if self._deadline is None else max(0.0, min(seconds, self._deadline - time.monotonic()))

    def look_soon(self) -> None:
        """Have heartbeats go out soon for a while: one that a client still took before it closed tells nothing."""
        self._soon = HALF_CLOSED_SECONDS

    def next(self, now: float) -> float | None:
        """Return after how long a heartbeat is due, or the end; `None`: neither ever is.

        Raises:
            MaxDuration: the stream is too old.
        """
        heartbeat = self._heartbeat if self._soon is None else self._next_soon()
        if self._deadline is None:
            return heartbeat
        left = self._deadline - now
        if left <= 0:
            raise self._too_late()
        return left if heartbeat is None or left < heartbeat else heartbeat

    def overdue(self) -> MaxDuration | None:
        """Return the error of a stream that is too old, if it is."""
        return None if self._deadline is None or time.monotonic() < self._deadline else self._too_late()

    def _too_late(self) -> MaxDuration:
        return MaxDuration(f"expected the end of the stream within {self._max_duration:g} s, got none")

    def _next_soon(self) -> float:
        assert self._soon is not None
        due, self._soon = self._soon, self._soon * 2
        if due >= (self._heartbeat or _LONGEST_SOON):
            self._soon, due = None, self._heartbeat or due
        return due


def _heartbeat(wire: Wire, tally: Tally) -> bytes:
    """Return what goes out after a silence, or to hear from the client whether it has gone."""
    tally.count_heartbeat()
    return wire.heartbeat()
