"""What the retention takes away: in short transactions, so that nobody who writes waits for long."""

from __future__ import annotations

import time
from typing import Iterator

from flaskstream.stores.protocol import EVICTED, RUNNING, Retention
from flaskstream.stores.sqlite.connections import Connection
from flaskstream.stores.sqlite.rows import reading, writing
from flaskstream.stores.sqlite.schema import BITS

STREAMS_AT_ONCE = 50
ROWS_AT_ONCE = 500
BYTES_AT_ONCE = 1024 * 1024
PAGES_AT_ONCE = 100
"""What one transaction takes away: some milliseconds' work."""

MAX_PAGES = 2_000
"""What one eviction gives back to the system. The rest is used again, and given back by the next ones."""

GONE = f"state != '{EVICTED}' AND (state != '{RUNNING}' OR held_from > :now OR held_until <= :now)"
"""It has ended, or its producer is lost."""


def evict(connection: Connection, retention: Retention) -> int:
    """See `Store.evict`."""
    _mend_clock(connection)
    _drop_remembered(connection, retention)
    count = sum(_empty(connection, numbers) for numbers in _in_pieces(_surplus(connection, retention)))
    sweep(connection)
    _give_back(connection)
    return count


def sweep(connection: Connection) -> None:
    """Take the records of streams away that have none any more, also of those that a killed process left."""
    for (stream,) in connection.execute("SELECT stream FROM garbage").fetchall():
        while _delete_some(connection, stream):
            pass
        connection.execute("DELETE FROM garbage WHERE stream = ?", (stream,))


def _mend_clock(connection: Connection) -> None:
    """Where somebody has set the clock back, what ended later than now ended now: it is not kept for a year."""
    now = time.time()
    if connection.execute("SELECT 1 FROM streams WHERE changed_at > ?", (now + 1.0,)).fetchone():
        connection.execute("UPDATE streams SET changed_at = ? WHERE changed_at > ?", (now, now + 1.0))


def _drop_remembered(connection: Connection, retention: Retention) -> None:
    query = (
        "DELETE FROM streams WHERE number IN "
        f"(SELECT number FROM streams WHERE state = '{EVICTED}' AND changed_at <= ? LIMIT {ROWS_AT_ONCE})"
    )
    while connection.execute(query, (time.time() - retention.seconds,)).rowcount == ROWS_AT_ONCE:
        pass


def _surplus(connection: Connection, retention: Retention) -> list[int]:
    """The streams that have to go, those that ended first first."""
    with reading(connection):
        streams, size = connection.execute(
            f"SELECT count(*), total(bytes) FROM streams WHERE state != '{EVICTED}'"
        ).fetchone()
        gone = connection.execute(
            f"SELECT number, bytes, changed_at FROM streams WHERE {GONE} ORDER BY changed_at, number",
            {"now": time.monotonic()},
        ).fetchall()
    before = time.time() - retention.seconds
    surplus = []
    for number, one, changed_at in gone:
        if changed_at > before and streams <= retention.streams and size <= retention.bytes:
            break
        surplus.append(number)
        streams, size = streams - 1, size - one
    return surplus


def _in_pieces(numbers: list[int]) -> Iterator[list[int]]:
    return (numbers[start : start + STREAMS_AT_ONCE] for start in range(0, len(numbers), STREAMS_AT_ONCE))


def _empty(connection: Connection, numbers: list[int]) -> int:
    """Say of these streams that they are evicted, unless another process has, or their producer is there again."""
    query = f"UPDATE streams SET state = '{EVICTED}', bytes = 0, changed_at = :wall WHERE number = :number AND {GONE}"
    moment = {"now": time.monotonic(), "wall": time.time()}
    with writing(connection):
        emptied = [one for one in numbers if connection.execute(query, {"number": one, **moment}).rowcount]
        connection.executemany("INSERT OR IGNORE INTO garbage VALUES (?)", [(number,) for number in emptied])
        connection.execute("UPDATE evicted SET count = count + ?", (len(emptied),))
    return len(emptied)


def _delete_some(connection: Connection, stream: int) -> bool:
    """Return whether there was one."""
    first, end = stream << BITS, (stream + 1) << BITS
    query = (
        f"SELECT place, length(block) FROM records WHERE place >= ? AND place < ? ORDER BY place LIMIT {ROWS_AT_ONCE}"
    )
    last = size = 0
    for place, length in connection.execute(query, (first, end)).fetchall():
        last, size = place, size + length
        if size > BYTES_AT_ONCE:
            break
    connection.execute("DELETE FROM records WHERE place >= ? AND place <= ?", (first, last))
    return last > 0


def _give_back(connection: Connection) -> None:
    """Give free pages back to the system where they are more than a quarter."""
    for _ in range(MAX_PAGES // PAGES_AT_ONCE):
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        if free <= max(pages // 4, PAGES_AT_ONCE):
            return
        connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")  # `execute` would do one page
