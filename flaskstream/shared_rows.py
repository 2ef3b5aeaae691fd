"""Rows of words in memory that all processes see which were forked from the one that made it.

It is a file without a name: whatever dies, and however, nothing is left behind. Each row has a lock that belongs to a
process and not to a thread: the kernel frees it when the process dies.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from typing import Any

WORD_BYTES = 8


class SharedRows:
    """So many rows of so many unsigned words of 64 bits, all zero at first.

    Args:
        name: what the kernel calls the memory, for whoever looks at it from outside.
        rows: how many.
        words: in each.
    """

    def __init__(self, name: str, rows: int, words: int) -> None:
        self._words = words
        self._rows = rows
        self._descriptor = _nameless_file(name, rows * words * WORD_BYTES)
        self._memory = mmap.mmap(self._descriptor, rows * words * WORD_BYTES)

    def __len__(self) -> int:
        return self._rows

    def row(self, number: int) -> memoryview:
        """Return the words of a row; what is written to them is in all processes at once."""
        return memoryview(self._memory).cast("Q")[number * self._words : (number + 1) * self._words]

    def try_lock(self, number: int, exclusive: bool = True) -> bool:
        """Take the lock of a row for this process, and return whether it could be had. Waits for nobody."""
        try:
            fcntl.lockf(self._descriptor, _kind(exclusive) | fcntl.LOCK_NB, 1, number)
        except OSError:
            return False
        return True

    def lock(self, number: int) -> None:
        """Take the lock of a row for this process; waits until the others have done with it."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, number)

    def unlock(self, number: int) -> None:
        """Give it back."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, number)


def _kind(exclusive: bool) -> int:
    return fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH


def _nameless_file(name: str, size: int) -> int:
    make: Any = getattr(os, "memfd_create", None)
    if make is not None:
        descriptor: int = make(name)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, size)
    return descriptor
