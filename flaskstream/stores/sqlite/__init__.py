"""The store of one machine: a file of SQLite, which all workers of the machine write to and read."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Callable, Sequence, TypeVar

from flaskstream.errors import InvalidSetting, StoreUnavailable
from flaskstream.stores.calls import Lane
from flaskstream.stores.protocol import Batch, Kept, NewStream, Page, Retention, StreamInfo
from flaskstream.stores.sqlite import evict, rows
from flaskstream.stores.sqlite.connections import Connection, Connections
from flaskstream.stores.sqlite.places import place_of
from flaskstream.stores.sqlite.poller import Poller

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds to wait for a lock. A transaction here takes milliseconds: who holds the file for longer is no worker."""

READERS = 3
"""How many calls of one process read at once; one writes, for SQLite takes one writer at a time."""


class _Process:
    """What the store has open in one process."""

    def __init__(self, place: Path, patience: float) -> None:
        self.connections = Connections(place, patience)
        self.writes = Lane(1, patience)
        self.reads = Lane(READERS, patience)
        self.poller = Poller(self.read)

    def read(self, question: Callable[[Connection], T]) -> T:
        return self.reads.run(lambda: self._ask(question))

    def write(self, change: Callable[[Connection], T]) -> T:
        try:
            return self.writes.run(lambda: self._ask(change))
        except StoreUnavailable:
            raise
        except BaseException:  # the greenlet is ended, and the write goes on in its thread
            self.poller.doubt()
            raise

    def close(self) -> None:
        self.poller.close()
        self.connections.close()
        self.writes.close()
        self.reads.close()

    def _ask(self, question: Callable[[Connection], T]) -> T:
        with self.connections.borrow() as connection:
            return question(connection)


class SQLiteStore:
    """Keeps streams in a file.

    The file is this user's alone; two more lie beside it while it is open. It has to be on a disk of this machine. A
    power cut may cost the last moments and never the file; the end of a process, however it came, costs nothing.

    Args:
        path: of the file, made when it is needed; empty: `streams.db` in a directory of this user's own, in the
            system's directory for temporary files.
        patience: seconds to wait for a lock that another process holds.

    Raises:
        InvalidSetting: no such file can be there, or the one that is there is something else.
    """

    shared = True

    def __init__(self, path: str = "", patience: float = PATIENCE) -> None:
        self._place = place_of(path)
        self._patience = patience
        self._processes: dict[int, _Process] = {}
        self._look_once()

    def begin(self, new: NewStream, lease: float) -> tuple[StreamInfo, bool]:
        """See `Store.begin`."""
        process = self._process()
        answer = process.write(lambda connection: rows.begin(connection, new, lease))
        process.poller.tell(new.stream_id)
        return answer

    def append(self, batches: Sequence[Batch], lease: float) -> Sequence[str]:
        """See `Store.append`."""
        process = self._process()
        refused = process.write(lambda connection: rows.append(connection, batches, lease))
        process.poller.tell(*(batch.stream_id for batch in batches))
        return refused

    def read(self, stream_id: str, after: int, limit: int) -> Page | None:
        """See `Store.read`."""
        return self._process().read(lambda connection: rows.read(connection, stream_id, after, limit))

    def find(self, epoch: str) -> str | None:
        """See `Store.find`."""
        return self._process().read(lambda connection: rows.find(connection, epoch))

    def lose(self, stream_id: str, epoch: str, block: bytes) -> bool:
        """See `Store.lose`."""
        process = self._process()
        is_lost = process.write(lambda connection: rows.lose(connection, stream_id, epoch, block))
        process.poller.tell(stream_id)
        return is_lost

    def stop(self, stream_id: str) -> None:
        """See `Store.stop`."""
        process = self._process()
        process.write(lambda connection: rows.stop(connection, stream_id))
        process.poller.tell(stream_id)

    def stopping(self) -> Sequence[str]:
        """See `Store.stopping`."""
        return self._process().read(rows.stopping)

    def touch(self, stream_ids: Sequence[str]) -> None:
        """See `Store.touch`."""
        self._process().write(lambda connection: rows.touch(connection, stream_ids))

    def watch(self, stream_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.watch`."""
        return self._process().poller.watch(stream_id, notify)

    def forget(self, stream_id: str, epoch: str) -> None:
        """See `Store.forget`."""
        process = self._process()
        process.write(lambda connection: rows.forget(connection, stream_id, epoch))
        process.poller.tell(stream_id)
        process.read(evict.sweep)

    def evict(self, retention: Retention) -> int:
        """See `Store.evict`. It takes long, so not in the writers' lane; watchers hear of it by the poller."""
        process = self._process()
        try:
            return process.read(lambda connection: evict.evict(connection, retention))
        finally:
            process.poller.doubt()

    def kept(self) -> Kept:
        """See `Store.kept`."""
        return self._process().read(rows.kept)

    def close(self) -> None:
        """See `Store.close`. Whoever asks the store after it opens it again."""
        process = self._processes.pop(os.getpid(), None)
        if process is not None:
            process.close()

    def _process(self) -> _Process:
        """What the process has that this is called in: nothing of its parent's is touched after a fork."""
        process = self._processes.get(os.getpid())
        if process is None:
            process = self._processes.setdefault(os.getpid(), _Process(self._place, self._patience))
        return process

    def _look_once(self) -> None:
        """Refuse a file that is something else now, and not with the first request; one that is locked may be ours."""
        if not self._place.exists():
            return
        connections = Connections(self._place, patience=0.0)
        try:
            with connections.borrow():
                pass
        except StoreUnavailable as error:
            if type(error.__cause__) is sqlite3.DatabaseError:  # its subclasses are about what may pass
                raise InvalidSetting(f"store: {error}") from error
        finally:
            connections.close()
