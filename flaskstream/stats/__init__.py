"""What the streams of all workers did: counted as it happens, summed when it is asked for."""

from __future__ import annotations

import os
from bisect import bisect_left

from flaskstream.native import original
from flaskstream.stats.layout import BOUNDS_MS, COUNTERS, ENDS, FIRST_TOKEN, GAP, OPEN, Histogram
from flaskstream.stats.slots import Slots

__all__ = ["NOT_COUNTED", "STATS", "Stats"]

_EVENTS, _TOKENS, _BYTES = COUNTERS["events"], COUNTERS["tokens"], COUNTERS["bytes"]
_GAP_SUM = GAP.start
_SOURCE, _CLIENT = COUNTERS["source_wait_us"], COUNTERS["client_wait_us"]


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
            _observe(row, FIRST_TOKEN, milliseconds)

    def event(self, size: int, tokens: int, source_ms: float, client_ms: float, is_first: bool) -> None:
        """Count an event that leaves.

        Args:
            size: bytes.
            tokens: in it.
            source_ms, client_ms: milliseconds for which its source and its client were waited for since the one before.
            is_first: there was none before it, and so no gap.
        """
        row = self._row or self._own_row()
        with self._lock:
            row[_EVENTS] += 1
            row[_TOKENS] += tokens
            row[_BYTES] += size
            row[_SOURCE] += int(source_ms * 1000)
            row[_CLIENT] += int(client_ms * 1000)
            if not is_first:  # as `_observe` does, without its calls: this is done for every token
                gap = source_ms + client_ms
                row[_GAP_SUM] += int(gap * 1000)
                row[_GAP_SUM + 1 + bisect_left(BOUNDS_MS, gap)] += 1

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


def _observe(row: memoryview, histogram: Histogram, milliseconds: float) -> None:
    row[histogram.start] += int(milliseconds * 1000)
    row[histogram.bucket(milliseconds)] += 1


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

    def event(self, size: int, tokens: int, source_ms: float, client_ms: float, is_first: bool) -> None:
        pass


STATS = Stats()
NOT_COUNTED = NotCounted()
os.register_at_fork(after_in_child=STATS.forget)
