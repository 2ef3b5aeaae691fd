"""What the streams of all workers did: counted as it happens, summed when it is asked for."""

from __future__ import annotations

import os
from typing import Collection, NamedTuple, Sequence

from flaskstream.native import original
from flaskstream.stats.layout import COUNTERS, ENDS, FIRST_TOKEN, GAP, OPEN, Histogram
from flaskstream.stats.slots import Slots

__all__ = ["NOT_COUNTED", "STATS", "Stats", "Told"]

_EVENTS, _TOKENS, _BYTES = COUNTERS["events"], COUNTERS["tokens"], COUNTERS["bytes"]
_SOURCE, _CLIENT = COUNTERS["source_wait_us"], COUNTERS["client_wait_us"]


class Told(NamedTuple):
    """What the events of one stream were: tokens and bytes in them, and for how long whom had been waited for."""

    events: int = 0
    tokens: int = 0
    bytes: int = 0
    source_seconds: float = 0.0
    client_seconds: float = 0.0


class Stats:
    """The counters of this process, and the way to those of its siblings. A process has one, `STATS`.

    Its lock is the kernel thread's own and can be taken twice: a stream that the garbage collector finds in the middle
    of all this is counted here too. Greenlets do not need it, for nothing here waits.
    """

    def __init__(self) -> None:
        self._slots: Slots | None = None
        self._row: memoryview | None = None
        self._lock = original("_thread", "RLock")()

    def share(self) -> None:
        """Make the memory that the processes forked from this one will share. Any number of times."""
        with self._lock:
            self._slots = self._slots or Slots()

    def join(self) -> None:
        """Be one of the processes from now on, and not from the first stream on."""
        self._own_row()

    def forget(self) -> None:
        """Be another process from now on: it was forked."""
        self._row = None
        self._lock = original("_thread", "RLock")()

    def rows(self) -> tuple[list[list[int]], int]:
        """Return the numbers of every process that was ever here, and how many are here now."""
        self._own_row()
        assert self._slots is not None
        return self._slots.rows(), self._slots.alive()

    def opened(self) -> None:
        """Count a stream that begins."""
        self._add(OPEN, 1)

    def ended(self, end: str) -> None:
        """Count its end, one of `layout.ENDS`."""
        row = self._own_row()
        with self._lock:
            row[OPEN] = max(0, row[OPEN] - 1)
            row[COUNTERS[f"ended:{end if end in ENDS else 'internal'}"]] += 1

    def refused(self, code: str) -> None:
        """Count a request that became no stream."""
        self.count(f"refused:{code}")

    def count(self, name: str, number: int = 1) -> None:
        """Add to one of `layout.COUNTERS`; what is none is not counted."""
        if name in COUNTERS:
            self._add(COUNTERS[name], number)

    def first_token(self, milliseconds: float) -> None:
        """Count how long a stream's first token took."""
        row = self._own_row()
        with self._lock:
            _observe(row, FIRST_TOKEN, [milliseconds])

    def told(self, now: Told, before: Told, gaps: Collection[float]) -> None:
        """Count events that have left.

        Args:
            now: how many of one stream, and what they were.
            before: what was counted of them.
            gaps: the seconds before each of them, without the first one of a stream.
        """
        row = self._own_row()
        with self._lock:
            row[_EVENTS] += now.events - before.events
            row[_TOKENS] += now.tokens - before.tokens
            row[_BYTES] += now.bytes - before.bytes
            row[_SOURCE] += int((now.source_seconds - before.source_seconds) * 1_000_000)
            row[_CLIENT] += int((now.client_seconds - before.client_seconds) * 1_000_000)
            _observe(row, GAP, [gap * 1000 for gap in gaps])

    def _add(self, word: int, number: int) -> None:
        row = self._own_row()
        with self._lock:
            row[word] += number

    def _own_row(self) -> memoryview:
        row = self._row
        if row is None:
            self.share()
            assert self._slots is not None
            with self._lock:
                row = self._row = self._row or self._slots.claim()
        return row


def _observe(row: memoryview, histogram: Histogram, milliseconds: Sequence[float]) -> None:
    row[histogram.start] += int(sum(milliseconds) * 1000)
    for word, count in histogram.buckets(milliseconds):
        row[word] += count


class NotCounted(Stats):
    """Takes what `Stats` takes, and leaves it out of all figures."""

    def opened(self) -> None:
        pass

    def ended(self, end: str) -> None:
        pass

    def count(self, name: str, number: int = 1) -> None:
        pass

    def first_token(self, milliseconds: float) -> None:
        pass

    def told(self, now: Told, before: Told, gaps: Collection[float]) -> None:
        pass


STATS = Stats()
NOT_COUNTED = NotCounted()
os.register_at_fork(after_in_child=STATS.forget)
