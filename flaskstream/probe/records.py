"""What became of the probes of all workers, so that any of them can be asked after.

A bounded ring of rows, in memory that the workers share: the newest probe takes the place of the oldest.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from flaskstream.native import original
from flaskstream.shared_rows import SharedRows

SCHEMA_VERSION = 1
MAX_RECORDS = 512
"""More than a doctor makes in half an hour."""

RUNNING, WHOLE, LEFT, FAILED, LOST = STATES = ("running", "whole", "left", "failed", "lost")
"""What a probe can be: it goes on; it was sent to its end; its client went first; it ended with an error; its worker
died, and nobody knows."""

(_TICKET, _ID_HIGH, _ID_LOW, _ID_LENGTH, _PID, _STATE, _SENT, _REACHED_US, _ENDED_US) = range(9)
_WORDS = 9
_LAST_TICKET = 0  # the row before the records has this word, and the lock
_LOW_BITS = 2**64 - 1


@dataclass(frozen=True)
class Found:
    """What is known of a probe now.

    Attributes:
        probe_id: that it was given.
        state: one of `STATES`.
        sent: how many ticks were handed to the server, the first one (0) included.
        ended_after_ms: when it ended, in milliseconds after the request had reached the app; `None`: it has not, or
            nobody knows.
        now_ms: this moment, on the same scale.
    """

    probe_id: str
    state: str
    sent: int
    ended_after_ms: float | None
    now_ms: float

    def as_json(self) -> dict[str, Any]:
        """Return what `/probe?ask=` answers."""
        return {
            "schema_version": SCHEMA_VERSION,
            "id": self.probe_id,
            "known": True,
            "state": self.state,
            "sent": self.sent,
            "left_after_ms": self.ended_after_ms if self.state == LEFT else None,
            "now_ms": self.now_ms,
        }


class ProbeRecord:
    """The record of one probe, in the worker that has it. It writes nothing once a newer probe has its row."""

    def __init__(self, row: memoryview, ticket: int, reached_at: float) -> None:
        self._row = row
        self._ticket = ticket
        self._reached_at = reached_at

    def sent(self, ticks: int) -> None:
        """Note how many ticks were handed to the server."""
        self._write(_SENT, ticks)

    def ended(self, state: str) -> None:
        """Note that it has ended, now."""
        self._write(_ENDED_US, _microseconds(time.monotonic() - self._reached_at))
        self._write(_STATE, STATES.index(state))

    def _write(self, word: int, value: int) -> None:
        if self._row[_TICKET] == self._ticket:
            self._row[word] = value


class ProbeRecords:
    """The records of all workers. A process has one of these, `PROBE_RECORDS`."""

    def __init__(self) -> None:
        self._shared: SharedRows | None = None
        self._lock = original("_thread", "allocate_lock")()  # beside that of the row, which is the whole process's

    def share(self) -> SharedRows:
        """Make the memory that the processes forked from this one will share. Any number of times."""
        self._shared = self._shared or SharedRows("flaskstream-probes", 1 + MAX_RECORDS, _WORDS)
        return self._shared

    def forget_locks(self) -> None:
        """Be another process from now on: it was forked."""
        self._lock = original("_thread", "allocate_lock")()

    def begin(self, probe_id: str, reached_at: float) -> ProbeRecord:
        """Record a probe that begins.

        Args:
            probe_id: up to 32 hexadecimal digits.
            reached_at: when its request reached the app, in seconds of the monotonic clock.
        """
        shared = self.share()
        ticket = self._next_ticket(shared)
        row = shared.row(1 + ticket % MAX_RECORDS)
        row[_TICKET] = 0  # nobody's, while it is written
        row[_ID_HIGH], row[_ID_LOW], row[_ID_LENGTH] = _words_of(probe_id)
        row[_PID], row[_STATE], row[_SENT] = os.getpid(), STATES.index(RUNNING), 0
        row[_REACHED_US], row[_ENDED_US] = _microseconds(reached_at), 0
        row[_TICKET] = ticket
        return ProbeRecord(row, ticket, reached_at)

    def find(self, probe_id: str) -> Found | None:
        """Return what is known of the newest probe with this id; `None`: nothing."""
        shared, wanted = self.share(), list(_words_of(probe_id))
        rows = [list(shared.row(number)) for number in range(1, len(shared))]
        known = [row for row in rows if row[_TICKET] and row[_ID_HIGH : _ID_LENGTH + 1] == wanted]
        return _found(probe_id, max(known)) if known else None  # a row begins with its ticket

    def _next_ticket(self, shared: SharedRows) -> int:
        with self._lock:
            shared.lock(0)
            try:
                row = shared.row(0)
                row[_LAST_TICKET] += 1
                return row[_LAST_TICKET]
            finally:
                shared.unlock(0)


def _found(probe_id: str, row: list[int]) -> Found:
    state = STATES[row[_STATE]]
    if state == RUNNING and not _is_alive(row[_PID]):
        state = LOST
    return Found(
        probe_id,
        state,
        sent=row[_SENT],
        ended_after_ms=row[_ENDED_US] / 1000 if state in (WHOLE, LEFT, FAILED) else None,
        now_ms=round(time.monotonic() * 1000 - row[_REACHED_US] / 1000, 3),
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is there, and somebody else's
    return True


def _words_of(probe_id: str) -> tuple[int, int, int]:
    number = int(probe_id, 16)
    return number >> 64, number & _LOW_BITS, len(probe_id)


def _microseconds(seconds: float) -> int:
    return max(0, int(seconds * 1_000_000))


PROBE_RECORDS = ProbeRecords()
os.register_at_fork(after_in_child=PROBE_RECORDS.forget_locks)
