"""The open connections of one process: any thread may borrow one, and none is open while the process forks.

SQLite counts its locks by process, in memory that a child gets a copy of: a child of a process with an open connection
would believe that it holds locks which only its parent holds, whatever it opens for itself
(https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_connection_across_a_fork_). So they are closed
before, and opened again when somebody asks.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
import weakref
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from flaskstream.errors import StoreUnavailable
from flaskstream.native import original
from flaskstream.stores.sqlite.places import create_private
from flaskstream.stores.sqlite.schema import set_up

log = logging.getLogger(__name__)

FORK_PATIENCE = 1.0
"""Seconds that a fork waits for calls that are under way."""

SHORT = 0.005
"""Seconds between two looks at what has no better way of telling."""

_known: weakref.WeakSet[Connections] = weakref.WeakSet()
"""All of this process: `os.register_at_fork` takes no answer back."""
_is_registered = False
_paused: list[Connections] = []
"""Those that wait for a fork to be over: one may be made, or go, in the meantime."""


class Connection(sqlite3.Connection):
    """A connection, and what was known when it was last used.

    Attributes:
        file: which file it has open, by device and inode.
        seen: SQLite's number of the last change by others that the poller has seen through it.
    """

    file: tuple[int, int] | None = None
    seen: int | None = None


class Connections:
    """Connections to one file.

    Args:
        place: the file; made when it is needed.
        patience: seconds to wait for a lock that another process holds.
    """

    def __init__(self, place: Path, patience: float) -> None:
        self._place = place
        self._patience = patience
        self._idle: deque[Connection] = deque()
        self._gate = original("_thread", "RLock")()
        self._out: set[object] = set()  # not a number: to add to one takes more than one step
        self._closed = False
        _watch_forks(self)

    @contextmanager
    def borrow(self) -> Iterator[Connection]:
        """Lend a connection. What it has begun is undone if an exception comes, and so is the connection.

        Raises:
            StoreUnavailable: SQLite or the system refused.
        """
        turn = object()
        with self._gate:
            self._out.add(turn)
        try:
            with self._usable() as connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(f"expected to use the store {self._place}, got {error!r:.300}") from error
        finally:
            self._out.discard(turn)

    def close(self) -> None:
        """Close those that nobody has now; the others are closed when they are given back."""
        self._closed = True
        self._close_idle()

    def pause(self) -> None:
        """Close all and lend none until `go_on`: the process is about to fork."""
        self._gate.acquire()
        deadline = time.monotonic() + FORK_PATIENCE
        while self._out and time.monotonic() < deadline:
            original("time", "sleep")(SHORT)
        if self._out:
            log.warning("the process forks while it uses the store %s: see SQLite's page on forks", self._place)
        self._close_idle()

    def go_on(self) -> None:
        """Lend again."""
        self._gate.release()

    @contextmanager
    def _usable(self) -> Iterator[Connection]:
        connection = self._take() or self._open()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _take(self) -> Connection | None:
        """Return an idle connection; `None`: there is none.

        Raises:
            StoreUnavailable: the file is gone. Whoever asks again gets a new one.
        """
        try:
            connection = self._idle.pop()
        except IndexError:
            return None
        if connection.file == _file_at(self._place):
            return connection
        connection.close()
        self._close_idle()
        raise StoreUnavailable(f"expected the store {self._place} to stay where it is, got another file or none there")

    def _open(self) -> Connection:
        create_private(self._place)
        file = _file_at(self._place)
        connection = sqlite3.connect(
            self._place.as_uri() + "?mode=rw",
            uri=True,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        connection.file = file
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: Connection) -> None:
        """Ask again while it is locked: SQLite does not wait by itself where it changes the kind of journal."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return set_up(connection)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                original("time", "sleep")(SHORT)

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _file_at(place: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(place)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _watch_forks(connections: Connections) -> None:
    global _is_registered
    _known.add(connections)
    if not _is_registered:
        _is_registered = True
        os.register_at_fork(before=_pause_all, after_in_parent=_go_on_all)


def _pause_all() -> None:
    global _paused
    _paused = list(_known)
    for connections in _paused:
        connections.pause()


def _go_on_all() -> None:
    global _paused
    for connections in _paused:
        connections.go_on()
    _paused = []
