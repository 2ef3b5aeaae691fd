"""An answer in the process that produces it: what it has said, and who waits here for more."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from itertools import islice
from typing import Any, Callable, Sequence

from flaskstream.interrupt import Bell
from flaskstream.native import original
from flaskstream.resume.ends import End
from flaskstream.resume.wire import unrecorded_of
from flaskstream.stores.protocol import RUNNING, Batch, Record, StreamInfo, record_of
from flaskstream.waiting import TurnBell

PATIENCE = 1.0
"""Seconds for which readers wait for the store: an event goes out when it is recorded, so that its id can be relied on.
After that it goes out without one (the first says that), and the stream can no longer be resumed."""

KEPT_BYTES = 512 * 1024
"""Of what readers may have by now; older records are in the store."""

ROOM_RECORDS = 256
ROOM_BYTES = 256 * 1024
"""How far a producer may be ahead of the store: it waits then, and so does its upstream."""

UNRECORDED_BYTES = 8 * KEPT_BYTES
"""Of what is in no store: a reader that is further behind is cut off."""

_MOST_SENDS = 2048
_SEND = 8  # as much as so many events
"""What all readers may cost where they are served at once. Beyond that each has a turn of its own."""

TOGETHER_RECORDS = 128
TOGETHER_BYTES = 64 * 1024
"""So much comes together into a store that is no more than this process, or not quite twice as much: readers do not
wait for it."""

_LARGE_BYTES = TOGETHER_BYTES // TOGETHER_RECORDS
"""Of a record: smaller ones are counted, and not measured."""

_BATCH_RECORDS = 1000


class Live:
    """One answer. Its producer adds, the recorder writes, readers follow; each in a thread or greenlet of its own.

    Args:
        info: of the stream, as it was begun.
        is_resumable: there is a store that begins to keep it.
        is_shared: other processes see what that store keeps.
        is_instant: nothing in it waits or outlives this process: readers may have what is not there yet.
        on_lost_recording: called once, with this, when the store turns out to be too slow or refuses.
        most_bytes: that it may have; with more the store is due, and whoever tells it must see to that.
        unread: holds this while nobody reads it, once somebody has done.

    Attributes:
        end: how it ended; `None`: it has not.
        is_resumable: its records are in the store, or on their way.
        is_shown_at_once: readers need not wait for the store.
    """

    __slots__ = (
        *("_begun", "_bells", "_blocks", "_dropped", "_dropped_size", "_hands_over", "_is_each_due", "_is_end_written"),
        *("_is_instant", "_is_shared", "_lagging_for", "_large_size", "_lock", "_most_bytes", "_on_lost_recording"),
        *("_only", "_recorded", "_room", "_size", "_sized", "_taken", "_takers", "_unread", "_written"),
        *("_written_size", "end", "epoch", "is_resumable", "is_shown_at_once", "stream_id", "unread_since"),
    )

    def __init__(
        self,
        info: StreamInfo,
        is_resumable: bool = True,
        is_shared: bool = True,
        is_instant: bool = False,
        on_lost_recording: Callable[[Live], None] = lambda live: None,
        most_bytes: int = sys.maxsize,
        unread: set[Live] | None = None,
    ) -> None:
        self.stream_id = info.stream_id
        self.epoch = info.epoch
        self._begun = info
        self.end: End | None = None
        self.is_resumable = is_resumable
        self.is_shown_at_once = is_instant or not is_resumable
        self._hands_over = is_resumable and is_instant  # readers get what is added itself, and its number is its id
        self._is_shared, self._is_instant = is_shared, is_instant
        self._most_bytes = most_bytes
        self._unread = set() if unread is None else unread
        self.unread_since: float | None = time.monotonic()
        self._on_lost_recording = on_lost_recording
        # The kernel thread's: nothing waits in it, so greenlets need none, and gevent's own costs more than what is
        # done here. It can be taken twice: the collector of garbage may end a reader in the middle of all this.
        self._lock: Any = original("_thread", "RLock")()
        self._blocks: list[bytes] = []  # of the records; these themselves would be work for the collector of garbage
        self._recorded = sys.maxsize if is_resumable else 0  # the number of the last record that ever will be
        self._dropped = self._dropped_size = 0  # so many of the first ones are no longer here
        self._sized = self._size = 0  # so many were measured, and this is what they have
        self._written = self._written_size = 0  # up to the last record that the store has
        self._is_end_written = False
        self._lagging_for = 0.0  # seconds for which the store has been behind
        self._set_bells(())
        self._taken = 0  # the number of the last record that some reader has passed on
        self._room = Bell()
        self._set_due()

    # The producer

    @property
    def is_far_ahead(self) -> bool:
        """Whether its producer has to wait: for the store, or, without one, for the first of its readers."""
        if self.is_resumable:
            return self.last - self._written >= ROOM_RECORDS or self.size - self._written_size >= ROOM_BYTES
        with self._lock:
            waiting = self._blocks[max(0, self._taken - self._dropped) :]
        return len(waiting) >= ROOM_RECORDS or sum(map(len, waiting)) >= ROOM_BYTES

    def wait_for_room(self, seconds: float) -> None:
        """Wait until more was written, or read, or for so long."""
        self._room.wait(seconds)

    # Only one thread adds, and that takes no lock: a block is there for others from one step to the next.

    def add(self, block: bytes) -> bool:
        """Add an event, for readers to have; return whether the store is due to be told."""
        blocks = self._blocks
        blocks.append(block)
        only = self._only
        if only is None:
            self._added(block)
        else:  # nearly always
            only.ring(block)
        if self._is_each_due or not len(blocks) % TOGETHER_RECORDS:
            return True
        return len(block) > _LARGE_BYTES and self._is_large(len(block))

    def _added(self, block: bytes) -> None:
        if not self.is_resumable:
            self._drop(self.last - 1, UNRECORDED_BYTES)
        takers = self._takers
        if len(takers) > 1 and len(takers) * (_SEND + 1) <= _MOST_SENDS:
            for taker in takers:
                taker.ring(block)
        elif self.is_shown_at_once:
            self._ring(1)

    def _is_large(self, size: int) -> bool:
        self._large_size += size
        return self._large_size >= TOGETHER_BYTES

    def add_together(self, blocks: list[bytes]) -> bool:
        """Do the same with several that came together, for readers to have together."""
        self._blocks += blocks
        if not self.is_resumable:
            self._drop(self.last - 1, UNRECORDED_BYTES)
        if self.is_shown_at_once:
            self._ring(len(blocks))
        has_passed_one = len(self._blocks) % TOGETHER_RECORDS < len(blocks)
        return self._is_each_due or has_passed_one or self._is_large(sum(map(len, blocks)))

    def finish(self, end: End) -> None:
        """Add the end; a second one is none."""
        with self._lock:
            if self.end is not None:
                return
            self._blocks.append(end.block)
            self.end = end
        if self.is_shown_at_once:
            self._room.ring()
            self._ring(1)

    @property
    def last(self) -> int:
        """The number of its last record; 0: it has none."""
        with self._lock:
            return self._dropped + len(self._blocks)

    @property
    def size(self) -> int:
        """Of all its records, in bytes."""
        with self._lock:
            new = self._blocks[self._sized - self._dropped :]
            self._sized += len(new)
            self._size += sum(map(len, new))
            return self._size

    @property
    def events(self) -> int:
        """How many events it has said, its end not among them."""
        return self.last - (self.end is not None)

    # The recorder

    def _set_due(self) -> None:
        """Set whether the store has to have each record from now on, or some together."""
        can_wait = self.is_resumable and self._is_instant
        self._is_each_due = not can_wait or self._most_bytes - self.size < 4 * TOGETHER_BYTES
        self._large_size = 0

    def _is_due(self) -> bool:
        if self.end is not None or self._is_each_due or self._large_size >= TOGETHER_BYTES:
            return True
        with self._lock:
            written = self._written - self._dropped
            return len(self._blocks) // TOGETHER_RECORDS > written // TOGETHER_RECORDS

    def unwritten(self) -> Batch | None:
        """Return what the store does not have yet; `None`: it has all of it, or will never have it."""
        with self._lock:
            if not self.is_resumable or self._is_end_written:
                return None
            records = tuple(self._records_after(self._written, self._written + _BATCH_RECORDS))
            is_last = self.end is not None and self._written + len(records) == self.last
            state = self.end.state if is_last and self.end is not None else RUNNING
            return Batch(self.stream_id, self.epoch, records, state)

    def _records_after(self, number: int, last: int) -> list[Record]:
        """Return the records behind this one, up to that one."""
        blocks = self._blocks[number - self._dropped : max(0, last - self._dropped)]
        recorded = max(0, self._recorded - number)
        if recorded >= len(blocks):  # nearly always
            return list(map(record_of, enumerate(blocks, number + 1)))
        numbered = enumerate(blocks, number + 1)
        return [*map(record_of, islice(numbered, recorded)), *map(unrecorded_of, numbered)]

    def written(self, batch: Batch) -> None:
        """Say that the store has these: readers may, too."""
        with self._lock:
            if batch.records:
                new = batch.records[max(0, self._written + 1 - batch.records[0].number) :]
                self._written = max(self._written, batch.records[-1].number)
                has_all = self._written == self.last
                self._written_size = self.size if has_all else self._written_size + sum(len(one.block) for one in new)
                self._lagging_for = 0.0
                self._set_due()
            self._is_end_written = self._is_end_written or batch.state != RUNNING
            self._drop(self._written, KEPT_BYTES)
        if batch.records:
            self._room.ring()
        if batch.records and not self.is_shown_at_once:
            self._ring(len(batch.records))

    def has_unwritten(self) -> bool:
        """Tell whether there is something that the store does not have."""
        return self.is_resumable and self._written < self.last

    def is_end_written(self) -> bool:
        """Tell whether the store has all of it."""
        return self._is_end_written

    @property
    def info(self) -> StreamInfo:
        """What this process knows of it, also where the store cannot be asked."""
        return replace(self._begun, last=self.shown)

    @property
    def shown(self) -> int:
        """The number of the last record that readers may have."""
        return self.last if self.is_shown_at_once else self._written

    def is_ended_as(self, info: StreamInfo) -> bool:
        """Tell whether the store has exactly this end."""
        end = self.end
        return end is not None and (info.epoch, info.state, info.last) == (self.epoch, end.state, self.last)

    def confirm_end(self) -> None:
        """Say that the store has all of it."""
        with self._lock:
            self._written, self._written_size = self.last, self.size
            self._is_end_written = True
        self._room.ring()
        self._ring(1)

    def is_anywhere_else(self) -> bool:
        """Tell whether other processes can go on with it, when this one has ended."""
        return self.is_resumable and self._is_shared

    def spend_patience(self, seconds: float) -> None:
        """Give up recording if the store is behind, and has been so for too long.

        Args:
            seconds: since this was last called, without those in which the process itself stood still: they are not the
                store's fault, and somebody else may have ended the stream in them.
        """
        self._lagging_for = self._lagging_for + seconds if self.has_unwritten() and self._is_due() else 0.0
        if self._lagging_for > PATIENCE:
            self.give_up_recording()

    def give_up_recording(self) -> None:
        """Have the rest go out without ids, if it has been recorded so far."""
        with self._lock:
            if not self.is_resumable or self._is_end_written:
                return
            self.is_resumable, self.is_shown_at_once = False, True
            self._recorded = self._written
            self._hands_over = False
            self._set_bells(self._bells)
            self._set_due()
        self._room.ring()
        self._ring(len(self._blocks))
        self._on_lost_recording(self)

    def _drop(self, number: int, most_bytes: int) -> None:
        """Keep no more than so many bytes of the records up to this one."""
        with self._lock:
            while self.size - self._dropped_size > most_bytes and self._dropped < number:
                half = max(1, (number - self._dropped) // 2)
                self._dropped_size += sum(map(len, self._blocks[:half]))
                self._dropped += half
                del self._blocks[:half]

    # Readers

    def _set_bells(self, bells: tuple[Bell | TurnBell, ...]) -> None:
        self._bells = bells  # other ones when they change: they are gone through without the lock
        takers = tuple(bell.taker for bell in bells if isinstance(bell, TurnBell)) if self._hands_over else ()
        self._takers = takers if len(takers) == len(bells) else ()  # of all readers, or of none
        self._only = self._takers[0] if len(self._takers) == 1 else None

    def attach(self, bell: Bell | TurnBell) -> None:
        """Have a reader's bell rung when there is more."""
        with self._lock:
            self._set_bells((*self._bells, bell))
            self.unread_since = None
            self._unread.discard(self)

    def detach(self, bell: Bell | TurnBell) -> None:
        """Have it rung no more."""
        with self._lock:
            self._set_bells(tuple(one for one in self._bells if one is not bell))
            if not self._bells:
                self.unread_since = time.monotonic()
                self._unread.add(self)

    def passed(self, number: int) -> None:
        """Say that a reader has passed on the records up to this one."""
        self._taken = max(self._taken, number)
        if not self.is_resumable:
            self._room.ring()

    def after(self, number: int) -> Sequence[Record] | None:
        """Return the records behind this one that a reader may have; `None`: some of them are only in the store.

        It has passed on those up to there.
        """
        with self._lock:
            self.passed(number)
            return None if number < self._dropped else self._records_after(number, self.shown)

    def _ring(self, events: int) -> None:
        """Have all readers take so many new events: at once, if that does not hold up others for long."""
        bells = self._bells
        at_once = len(bells) * (_SEND + events) <= _MOST_SENDS
        for bell in bells:
            if at_once:
                bell.ring()
            else:
                bell.rouse()
