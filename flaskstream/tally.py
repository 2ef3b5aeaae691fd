"""Count what one stream does; tell it when it has ended, to its app, to the log and to the figures of all workers."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Callable

from flaskstream.debug import DebugPrinter
from flaskstream.stats import NOT_COUNTED, STATS, Told
from flaskstream.wire import PlainTokens, Together, Wire, describe

log = logging.getLogger(__name__)

SOURCE, CLIENT = "source", "client"

_TOLD_TOGETHER = 16
"""So many events go into the figures of all workers together, or not quite twice as many: to count each there at once
costs as much as all else that is counted."""


@dataclass(frozen=True)
class StreamReport:
    """How a stream went; given to `on_end`, once for each stream.

    Attributes:
        stream_id: the id in the log, in debug lines and in the client's `event: error`.
        reason: "done", "error" or "client_gone"; of a stream in a store also "stopped", "restart" or "reset".
        code: of the error; `None` without one.
        events: that were handed to the server, without heartbeats and the closing event.
        tokens: in these events; where the source is a generator of yours, each event counts as one.
        bytes: of these events, before chunking and compression.
        first_event_ms: from the request to the first event; `None`: there was none.
        first_token_ms: from the request to the first event with a token in it; `None`: there was none.
        largest_gap_ms: the longest time from one event to the next, or from the last one to the end; `None`: no event.
        largest_gap_of: whose silence that was: "source", the generator or upstream gave nothing; or "client", it did
            not take what was sent.
        source_wait_ms: for how long the source was waited for, in all.
        client_wait_ms: for how long the client was waited for, until it took what was sent.
        duration_ms: from the request to the end.
    """

    stream_id: str
    reason: str
    code: str | None
    events: int
    tokens: int
    bytes: int
    first_event_ms: float | None
    first_token_ms: float | None
    largest_gap_ms: float | None
    largest_gap_of: str | None
    source_wait_ms: float
    client_wait_ms: float
    duration_ms: float

    def __str__(self) -> str:
        """Return one line for the log, of `key=value`."""
        told = {
            "id": self.stream_id,
            "end": self.code or self.reason,
            "events": self.events,
            "tokens": self.tokens,
            "bytes": self.bytes,
            "first_token_ms": self.first_token_ms,
            "largest_gap_ms": self.largest_gap_ms,
            "gap_of": self.largest_gap_of,
            "client_wait_ms": self.client_wait_ms,
            "duration_ms": self.duration_ms,
        }
        return " ".join(f"{key}={_said(value)}" for key, value in told.items())


def _said(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if isinstance(value, float) else str(value)


class Tally:
    """What a stream's report will say, while it is not yet known.

    A stream waits for its source, or for its client, and for nothing else: it says when it begins to wait for which.

    Args:
        stream_id: of the report.
        started_at: when the request came, in seconds of the monotonic clock.
        clock: returns these seconds.
        counted: it stands in the figures of all workers.

    Attributes:
        since: when the wait of now began, in seconds of the clock.
    """

    __slots__ = (
        *("since", "_clock", "_heard", "_bytes", "_is_plain", "_events", "_tokens", "stream_id", "reason", "_code"),
        *("_whom", "_started_at"),
        *("_source_wait", "_client_wait", "_source_gap", "_client_gap", "_first_event_ms", "_first_token_ms"),
        *("_largest_gap", "_largest_gap_of", "_gaps", "_told", "_stats"),
    )

    def __init__(
        self,
        stream_id: str,
        started_at: float,
        clock: Callable[[], float] = time.monotonic,
        counted: bool = True,
    ) -> None:
        self.stream_id = stream_id
        self._events = 0
        self.reason = "client_gone"
        self._code: str | None = None
        self._tokens = 0
        self._bytes = 0
        self._clock = clock
        self._started_at = started_at
        self.since, self._whom = started_at, SOURCE
        self._source_wait = self._client_wait = 0.0  # in all, in seconds,
        self._source_gap = self._client_gap = 0.0  # and since the last event
        self._first_event_ms: float | None = None
        self._first_token_ms: float | None = None
        self._largest_gap, self._largest_gap_of = -1.0, ""  # in seconds; none yet
        self._gaps: list[float] = []  # that the figures of all workers do not know yet
        self._heard: list[float] = []  # the gaps before tokens alone, which nothing else here counts yet
        self._is_plain = False  # the next token alone will be as the one before it: nothing was waited for meanwhile
        self._told = Told()
        self._stats = STATS if counted else NOT_COUNTED
        self._stats.opened()

    def waits_for(self, whom: str) -> float:
        """Say that from now on the source, or the client, is waited for; return when that is, by the clock."""
        now = self._clock()
        if self._whom is SOURCE:
            self._source_gap += now - self.since
        else:
            self._client_gap += now - self.since
        self.since = now
        self._whom = whom
        self._is_plain = False
        return now

    def hears(self) -> None:
        """Say that the source, which is waited for, has given something, and is waited for again at once."""
        now = self._clock()
        self._source_gap += now - self.since
        self.since = now
        self._is_plain = False

    def hears_token(self, frame: bytes) -> None:
        """Say the same of a token alone, which is about to leave in this frame; it is counted, too."""
        if not self._is_plain:
            self.hears()
            self.count(frame, 1)
            self._is_plain = self._first_token_ms is not None
            return
        now = self._clock()
        heard = self._heard
        heard.append(now - self.since)
        self.since = now
        self._bytes += len(frame)
        if len(heard) >= _TOLD_TOGETHER:
            self._tell()

    @property
    def events(self) -> int:
        """How many were counted."""
        return self._events + len(self._heard)

    def _count_heard(self) -> None:
        heard = self._heard
        self._source_wait += sum(heard)
        largest = max(heard)
        if largest > self._largest_gap:
            self._largest_gap, self._largest_gap_of = largest, SOURCE
        self._gaps += heard
        self._events += len(heard)
        self._tokens += len(heard)
        heard.clear()

    def count(self, frame: bytes, tokens: int, events: int = 1) -> None:
        """Count an event that is about to leave, or several that came together."""
        if self._heard:
            self._count_heard()
        self._is_plain = False
        source, client = self._source_gap, self._client_gap
        self._source_gap = self._client_gap = 0.0
        self._source_wait += source
        self._client_wait += client
        gap = source + client
        self._gaps.append(gap)
        if gap > self._largest_gap and self._events:
            self._largest_gap, self._largest_gap_of = gap, SOURCE if source >= client else CLIENT
        if events > 1:
            self._gaps += [0.0] * (events - 1)
        self._events += events
        self._tokens += tokens
        self._bytes += len(frame)
        if self._first_token_ms is None:
            self._count_first(tokens)
        if len(self._gaps) >= _TOLD_TOGETHER:
            self._tell()

    def _count_first(self, tokens: int) -> None:
        if self._first_event_ms is None:
            self._first_event_ms = self._milliseconds()
            del self._gaps[0]  # what came before the first event is none
            self._tell()
        if tokens:
            self._first_token_ms = self._milliseconds()
            self._stats.first_token(self._first_token_ms)

    def _tell(self) -> None:
        """Have the figures of all workers say what they do not yet."""
        if self._heard:
            self._count_heard()
        now = Told(self._events, self._tokens, self._bytes, self._source_wait, self._client_wait)
        self._stats.told(now, self._told, self._gaps)
        self._told = now
        self._gaps.clear()

    def count_heartbeat(self) -> None:
        """Count a heartbeat that is about to leave."""
        self._tell()
        self._stats.count("heartbeats")

    def fail(self, error: Exception) -> None:
        """Have the report say that this ended the stream."""
        self.reason = "error"
        self._code = describe(error, self.stream_id)["code"]

    def end(self) -> StreamReport:
        """Return the report, once, and tell the log and the figures of all workers."""
        if self._heard:
            self._count_heard()
        self.waits_for(self._whom)
        self._end_last_gap()
        self._tell()
        self._stats.ended(self._code or self.reason)
        report = self._report()
        log.info("stream %s", report)
        return report

    def _end_last_gap(self) -> None:
        source, client = self._source_gap, self._client_gap
        self._source_wait += source
        self._client_wait += client
        if self.events and source + client > self._largest_gap:
            self._largest_gap, self._largest_gap_of = source + client, SOURCE if source >= client else CLIENT

    def _report(self) -> StreamReport:
        has_gap = bool(self._largest_gap_of)
        return StreamReport(
            stream_id=self.stream_id,
            reason=self.reason,
            code=self._code,
            events=self.events,
            tokens=self._tokens,
            bytes=self._bytes,
            first_event_ms=self._first_event_ms,
            first_token_ms=self._first_token_ms,
            largest_gap_ms=self._largest_gap * 1000 if has_gap else None,
            largest_gap_of=self._largest_gap_of if has_gap else None,
            source_wait_ms=self._source_wait * 1000,
            client_wait_ms=self._client_wait * 1000,
            duration_ms=self._milliseconds(),
        )

    def _milliseconds(self) -> float:
        return (self._clock() - self._started_at) * 1000


def counted_frame(item: Any, wire: Wire, tally: Tally, printer: DebugPrinter | None = None) -> bytes:
    """Return what goes out for an item, or for all that came together; it is counted, and printed for debugging."""
    kind = type(item)
    if kind is Together or (kind is PlainTokens and printer is not None):
        return b"".join([counted_frame(one, wire, tally, printer) for one in item])
    frame = wire.frame(item)
    if kind in wire.single:
        tally.count(frame, 1)
    else:
        tally.count(frame, wire.tokens(item), len(item) if kind is PlainTokens else 1)
    if printer is not None:
        printer(tally.stream_id, tally.events, frame)
    return frame
