"""The tables, and how a file comes to have them.

A record's number in its table is made of its stream's number and of its own, so that the table itself is the index:
what is added goes to the end of the stream's own part, and what is read is one piece.
"""

from __future__ import annotations

import sqlite3

from flaskstream.stores.protocol import RUNNING

VERSION = 1
APPLICATION = 0x666C7374
"""What the file's header says of whose it is: `flst`."""

BITS = 32
"""Of a record's own number in the number of its row."""
MAX_NUMBER = (1 << BITS) - 1

TABLES = f"""
CREATE TABLE streams (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, so that no stream finds the records of another
    id TEXT NOT NULL UNIQUE,
    epoch TEXT NOT NULL UNIQUE,
    owner TEXT,
    key TEXT,
    request TEXT NOT NULL,
    state TEXT NOT NULL,
    last INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    stop_requested INTEGER NOT NULL DEFAULT 0,
    held_from REAL NOT NULL,  -- seconds since the machine was started
    held_until REAL NOT NULL, -- likewise
    read_at REAL NOT NULL,    -- likewise
    changed_at REAL NOT NULL  -- seconds since 1970
);
CREATE INDEX streams_by_key ON streams (key) WHERE key IS NOT NULL;
CREATE INDEX streams_to_stop ON streams (id) WHERE stop_requested = 1 AND state = '{RUNNING}';
CREATE TABLE records (place INTEGER PRIMARY KEY, block BLOB NOT NULL);
CREATE TABLE garbage (stream INTEGER PRIMARY KEY);
CREATE TABLE evicted (count INTEGER NOT NULL);
INSERT INTO evicted VALUES (0);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""


def place(stream: int, number: int) -> int:
    """Return the number of a record's row."""
    return stream << BITS | min(max(number, 0), MAX_NUMBER)


def set_up(connection: sqlite3.Connection) -> None:
    """Make the tables where the file is new, and set what each connection sets for itself.

    Raises:
        sqlite3.Error: it is no database, or one of something else, or of a newer version; or somebody holds it now.
    """
    connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may cost the last moments, and never the file
    if _one(connection, "PRAGMA application_id") != APPLICATION:
        _create(connection)
    version = _one(connection, "PRAGMA user_version")
    if version != VERSION:
        raise sqlite3.DatabaseError(
            f"expected version {VERSION} of the tables, got {version}: another release of flaskstream made them"
        )
    connection.execute("PRAGMA journal_size_limit = 16777216")


def _create(connection: sqlite3.Connection) -> None:
    if _one(connection, "SELECT count(*) FROM sqlite_master"):
        _refuse_foreign(connection)
        return
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has to come before the first page is written
    mode = _one(connection, "PRAGMA journal_mode = WAL")
    if mode != "wal":
        raise sqlite3.OperationalError(
            f"expected a file system on which SQLite can keep a write-ahead log, got {mode!r}"
        )
    connection.execute("BEGIN IMMEDIATE")
    if not _one(connection, "SELECT count(*) FROM sqlite_master"):  # else another process was first
        for statement in TABLES.split(";\n"):
            connection.execute(statement)
    connection.execute("COMMIT")


def _refuse_foreign(connection: sqlite3.Connection) -> None:
    """Another process may have made the tables between the two questions."""
    if _one(connection, "PRAGMA application_id") != APPLICATION:
        raise sqlite3.DatabaseError("expected a new file or one of flaskstream, got the database of another program")


def _one(connection: sqlite3.Connection, statement: str) -> object:
    return connection.execute(statement).fetchone()[0]
