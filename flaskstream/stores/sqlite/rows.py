"""What is asked of the tables: each function has one connection, and is one transaction or a part of one.

Few statements do much: between two of them a thread may have to wait for the interpreter while it holds the file's
lock.
Times of leases and readers are of `time.monotonic`, which on one machine all processes share and nobody sets; how
long something is kept is told by the clock on the wall, which goes on where the machine is started anew.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Sequence

from flaskstream.stores.protocol import EVICTED, FAILED, RUNNING, Batch, Kept, NewStream, Page, Record, StreamInfo
from flaskstream.stores.sqlite.schema import MAX_NUMBER, place

IDS_AT_ONCE = 500
"""In one statement: SQLite before 3.32 takes 999 values."""

_COLUMNS = (
    "number, id, epoch, owner, request, state, last, bytes, stop_requested, held_from, held_until, read_at, changed_at"
)


@dataclass
class Row:
    """A row of `streams`, but for the key."""

    number: int
    id: str
    epoch: str
    owner: str | None
    request: str
    state: str
    last: int
    size: int
    stop_requested: int
    held_from: float
    held_until: float
    read_at: float
    changed_at: float

    def is_held(self, now: float) -> bool:
        """A lease that begins later than now is one of before the machine was started anew."""
        return self.held_from <= now < self.held_until

    def info(self, now: float) -> StreamInfo:
        return StreamInfo(
            stream_id=self.id,
            epoch=self.epoch,
            owner=self.owner,
            request=self.request,
            state=self.state,
            last=self.last,
            is_held=self.is_held(now),
            stop_requested=bool(self.stop_requested),
            read_ago=max(now - self.read_at, 0.0),
        )

    def refuses(self, batch: Batch) -> bool:
        has_gap = bool(batch.records) and batch.records[0].number > self.last + 1
        return self.epoch != batch.epoch or self.state != RUNNING or has_gap

    def add(self, block: bytes) -> tuple[int, bytes]:
        """Count one more record, and return its row."""
        self.last += 1
        self.size += len(block)
        return place(self.number, self.last), block

    def become(self, state: str) -> None:
        self.state = state
        self.changed_at = time.time()

    def renew(self, lease: float) -> None:
        self.held_from = time.monotonic()
        self.held_until = self.held_from + lease


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction that writes. Whoever lent the connection undoes it if an exception comes."""
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """What is read in it is of one moment."""
    connection.execute("BEGIN")
    yield
    connection.execute("COMMIT")


def begin(connection: sqlite3.Connection, new: NewStream, lease: float) -> tuple[StreamInfo, bool]:
    """See `Store.begin`."""
    with writing(connection):
        there = _there(connection, new)
        if there is None:
            _insert(connection, new, lease)
        row = there or _with_id(connection, new.stream_id)
    assert row is not None  # it has just been written
    return row.info(time.monotonic()), there is None


def append(connection: sqlite3.Connection, batches: Sequence[Batch], lease: float) -> list[str]:
    """See `Store.append`."""
    added: list[tuple[int, bytes]] = []
    refused: list[str] = []
    changed: dict[str, Row] = {}
    with writing(connection):
        rows = {row.id: row for row in _with_ids(connection, [batch.stream_id for batch in batches])}
        for batch in batches:
            row = rows.get(batch.stream_id)
            if row is None or row.refuses(batch):
                refused.append(batch.stream_id)
                continue
            added += [row.add(record.block) for record in batch.records if record.number > row.last]
            row.become(batch.state)
            row.renew(lease)
            changed[row.id] = row
        _add_records(connection, added)
        _update(connection, changed.values())
    return refused


def read(connection: sqlite3.Connection, stream_id: str, after: int, limit: int) -> Page | None:
    """See `Store.read`."""
    after, limit = min(max(after, 0), MAX_NUMBER), min(max(limit, 0), MAX_NUMBER)
    records: Any = ()
    with reading(connection):
        row = _with_id(connection, stream_id)
        if row is not None and row.state != EVICTED and limit and after < row.last:
            bounds = place(row.number, after), place(row.number, row.last), limit
            query = "SELECT place, block FROM records WHERE place > ? AND place <= ? ORDER BY place LIMIT ?"
            records = connection.execute(query, bounds).fetchall()
    if row is None:
        return None
    kept = tuple(Record(number & MAX_NUMBER, block) for number, block in records)
    return Page(row.info(time.monotonic()), kept)


def find(connection: sqlite3.Connection, epoch: str) -> str | None:
    """See `Store.find`."""
    found = connection.execute("SELECT id FROM streams WHERE epoch = ?", (epoch,)).fetchone()
    return found[0] if found else None


def lose(connection: sqlite3.Connection, stream_id: str, epoch: str, block: bytes) -> bool:
    """See `Store.lose`."""
    with writing(connection):
        row = _with_id(connection, stream_id)
        is_lost = row is not None and row.epoch == epoch and row.state == RUNNING and not row.is_held(time.monotonic())
        if row is not None and is_lost:
            _add_records(connection, [row.add(block)])
            row.become(FAILED)
            _update(connection, [row])
    return is_lost


def stop(connection: sqlite3.Connection, stream_id: str) -> bool:
    """See `Store.stop`; return whether it runs."""
    query = f"UPDATE streams SET stop_requested = 1 WHERE id = ? AND state = '{RUNNING}'"
    return connection.execute(query, (stream_id,)).rowcount > 0


def stopping(connection: sqlite3.Connection) -> list[str]:
    """See `Store.stopping`."""
    query = f"SELECT id FROM streams WHERE stop_requested = 1 AND state = '{RUNNING}'"
    return [stream_id for (stream_id,) in connection.execute(query).fetchall()]


def touch(connection: sqlite3.Connection, stream_ids: Sequence[str]) -> None:
    """See `Store.touch`."""
    now = time.monotonic()
    with writing(connection):
        connection.executemany("UPDATE streams SET read_at = ? WHERE id = ?", [(now, one) for one in stream_ids])


def forget(connection: sqlite3.Connection, stream_id: str, epoch: str) -> None:
    """See `Store.forget`; its records are garbage from then on."""
    with writing(connection):
        query = "INSERT OR IGNORE INTO garbage SELECT number FROM streams WHERE id = ? AND epoch = ?"
        connection.execute(query, (stream_id, epoch))
        connection.execute("DELETE FROM streams WHERE id = ? AND epoch = ?", (stream_id, epoch))


def kept(connection: sqlite3.Connection) -> Kept:
    """See `Store.kept`."""
    figures = connection.execute(
        f"SELECT count(*), total(state = '{RUNNING}'), total(last), total(bytes), (SELECT count FROM evicted) "
        f"FROM streams WHERE state != '{EVICTED}'"
    ).fetchone()
    return Kept(*map(int, figures))


def state_of(connection: sqlite3.Connection, stream_ids: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return, for each of these streams that is there, what a watcher wants to hear the changes of."""
    rows = _with_ids(connection, stream_ids)
    return {row.id: (row.epoch, row.state, row.last, row.stop_requested) for row in rows}


def _there(connection: sqlite3.Connection, new: NewStream) -> Row | None:
    row = _with_id(connection, new.stream_id)
    if (row is None or row.state == EVICTED) and new.key is not None:
        query = f"SELECT {_COLUMNS} FROM streams WHERE key = ? AND owner IS ? AND state != '{EVICTED}'"
        row = _row(connection.execute(query, (new.key, new.owner)).fetchone())
    return row if row is not None and row.state != EVICTED else None


def _insert(connection: sqlite3.Connection, new: NewStream, lease: float) -> None:
    """An evicted one gives its place, or its key."""
    connection.execute("DELETE FROM streams WHERE id = ?", (new.stream_id,))
    if new.key is not None:
        connection.execute("UPDATE streams SET key = NULL WHERE key = ? AND owner IS ?", (new.key, new.owner))
    now = time.monotonic()
    connection.execute(
        "INSERT INTO streams (id, epoch, owner, key, request, state, held_from, held_until, read_at, changed_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (new.stream_id, new.epoch, new.owner, new.key, new.request, RUNNING, now, now + lease, now, time.time()),
    )


def _add_records(connection: sqlite3.Connection, records: Sequence[tuple[int, bytes]]) -> None:
    for start in range(0, len(records), IDS_AT_ONCE // 2):
        some = records[start : start + IDS_AT_ONCE // 2]
        query = "INSERT INTO records (place, block) VALUES " + ", ".join(["(?, ?)"] * len(some))
        connection.execute(query, [value for record in some for value in record])


def _update(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    connection.executemany(
        "UPDATE streams SET state = ?, last = ?, bytes = ?, held_from = ?, held_until = ?, changed_at = ? "
        "WHERE number = ?",
        [(row.state, row.last, row.size, row.held_from, row.held_until, row.changed_at, row.number) for row in rows],
    )


def _with_id(connection: sqlite3.Connection, stream_id: str) -> Row | None:
    return _row(connection.execute(f"SELECT {_COLUMNS} FROM streams WHERE id = ?", (stream_id,)).fetchone())


def _with_ids(connection: sqlite3.Connection, stream_ids: Sequence[str]) -> Iterator[Row]:
    for start in range(0, len(stream_ids), IDS_AT_ONCE):
        some = stream_ids[start : start + IDS_AT_ONCE]
        query = f"SELECT {_COLUMNS} FROM streams WHERE id IN ({', '.join('?' * len(some))})"
        yield from (Row(*values) for values in connection.execute(query, some).fetchall())


def _row(values: Any) -> Row | None:
    return Row(*values) if values else None
