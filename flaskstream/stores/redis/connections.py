"""The connections of one process: so many at most, and none is lost when who uses it is killed.

redis-py's own blocking pool is a `queue.Queue`, whose `put` may switch to another greenlet under gevent: one that is
killed there takes its connection with it, and after a while there are none. Here nothing switches but the waiting.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from flaskstream.native import original


class Connections:
    """Lends connections, one to each who asks.

    Args:
        make: makes one that is not connected yet.
        most: how many are lent at once.
        patience: seconds that one waits for a free one.
        errors: what a connection raises that has failed.
        refusals: what it raises for an answer that is an error: nothing is wrong with the connection.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        most: int,
        patience: float,
        errors: tuple[type[BaseException], ...],
        refusals: type[BaseException],
    ) -> None:
        self._make, self._most, self._patience = make, most, patience
        self._errors, self._refusals = errors, refusals
        self._lock = original("_thread", "RLock")()  # held for microseconds; may be taken in a collector of garbage
        self._idle: list[Any] = []
        self._free = most
        self._waiting: deque[_Turn] = deque()
        self._is_closed = False

    @contextmanager
    def one(self) -> Iterator[Any]:
        """Lend a connection for one question and its whole answer. If that fails half-way, it is closed.

        Raises:
            TimeoutError: all of them are in use, and none became free in time.
        """
        self._take_turn()
        connection = None
        try:
            connection = self._last_used() or self._make()
            self._make_ready(connection)
            yield connection
        except self._refusals:
            raise
        except BaseException:
            if connection is not None:
                connection.disconnect()
            raise
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Close the idle ones now, and those that are in use as soon as they are given back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.disconnect()

    def _last_used(self) -> Any:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _make_ready(self, connection: Any) -> None:
        """Connect, anew if Redis has closed it meanwhile: then it can be read, though nothing was asked."""
        connection.connect()
        try:
            is_stale = connection.can_read(0)
        except self._errors:
            is_stale = True
        if is_stale:
            connection.disconnect()
            connection.connect()

    def _give_back(self, connection: Any) -> None:
        with self._lock:
            is_closed = self._is_closed
            if connection is not None and not is_closed:
                self._idle.append(connection)
            self._pass_on()
        if connection is not None and is_closed:
            connection.disconnect()

    def _take_turn(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = _Turn()
            self._waiting.append(turn)
        try:
            turn.wait(self._patience)
        except BaseException:
            if not self._was_given(turn):
                raise
            with self._lock:
                self._pass_on()
            raise
        if not self._was_given(turn):
            raise TimeoutError(f"expected a connection within {self._patience:g} s, all {self._most} are in use")

    def _was_given(self, turn: _Turn) -> bool:
        """Whether a turn has come; otherwise it will not come any more."""
        with self._lock:
            if not turn.is_given:
                self._waiting.remove(turn)
            return turn.is_given

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().give()
        else:
            self._free += 1


class _Turn:
    """One who waits for a connection."""

    def __init__(self) -> None:
        self.is_given = False
        self._door = threading.Lock()
        self._door.acquire()

    def give(self) -> None:
        self.is_given = True
        self._door.release()

    def wait(self, seconds: float) -> None:
        self._door.acquire(timeout=seconds)
