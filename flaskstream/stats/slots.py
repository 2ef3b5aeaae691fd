"""One row of words for each process, in memory that all of them see.

The memory is made before the processes are forked, so that they share it. A process owns the row whose lock it holds.
When it has died the next one takes the row over and counts on in it, so no counter ever goes down.
"""

from __future__ import annotations

from flaskstream.shared_rows import WORD_BYTES, SharedRows
from flaskstream.stats.layout import OPEN, WORDS

MAX_PROCESSES = 256


class Slots:
    """Rows for up to `MAX_PROCESSES` processes. Made in their common parent, or in the only one."""

    def __init__(self) -> None:
        self._shared = SharedRows("flaskstream-stats", MAX_PROCESSES, WORDS)
        self._own: int | None = None
        self._alone: memoryview | None = None

    def claim(self) -> memoryview:
        """Return a row of this process's own; once for each process."""
        for slot in range(MAX_PROCESSES):
            if self._shared.try_lock(slot):
                self._own, self._alone = slot, None
                row = self._shared.row(slot)
                row[OPEN] = 0  # whoever had it before is dead, and so are its streams
                return row
        self._own = None
        self._alone = memoryview(bytearray(WORDS * WORD_BYTES)).cast("Q")  # one too many is counted for itself
        return self._alone

    def rows(self) -> list[list[int]]:
        """Return the numbers of every process that was ever here; of the dead ones too, for counters never go down."""
        shared = [self._read(slot) for slot in range(MAX_PROCESSES) if any(self._shared.row(slot))]
        return shared + ([list(self._alone)] if self._alone else [])

    def alive(self) -> int:
        """Return how many processes have a row now."""
        shared = sum(slot == self._own or not self._is_free(slot) for slot in range(MAX_PROCESSES))
        return shared + bool(self._alone)

    def _read(self, slot: int) -> list[int]:
        numbers = list(self._shared.row(slot))
        if slot != self._own and self._is_free(slot):
            numbers[OPEN] = 0
        return numbers

    def _is_free(self, slot: int) -> bool:
        is_free = self._shared.try_lock(slot, exclusive=False)  # two that ask at once are no owner to each other
        if is_free:
            self._shared.unlock(slot)
        return is_free
