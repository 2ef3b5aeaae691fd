"""Wait until a socket can be read, many times, at the price of once.

gevent makes a watcher and a timer for each wait. Here both are kept for as long as the socket is read, and the timer is
started again only when it has rung: of all waits for a token hardly one lasts until a heartbeat is due.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator

from flaskstream.native import is_patched
from flaskstream.signals import ENDED


READY, OVER = object(), object()


class Readable:
    """One socket that one greenlet at a time waits for.

    Args:
        descriptor: of the socket. To be closed before that is.
    """

    __slots__ = ("_getcurrent", "_hub", "_io", "_timer", "_rings_at", "_until", "_waiting", "__weakref__")

    def __init__(self, descriptor: int) -> None:
        import gevent

        self._getcurrent = gevent.getcurrent
        self._hub = gevent.get_hub()
        self._io = self._hub.loop.io(descriptor, 1)  # 1: readable
        self._timer: Any = None
        self._rings_at: float | None = None
        self._until: float | None = None
        self._waiting: Any = None  # a greenlet

    def wait(self, until: float | None) -> bool:
        """Return whether there is something to read; `False`: the time is over, or `rouse` was called.

        Args:
            until: in seconds of the monotonic clock; `None`: for ever.
        """
        self._until = until
        if until is not None and (self._rings_at is None or until < self._rings_at):
            self._set_alarm(until)
        self._waiting = current = self._getcurrent()
        # The kernel is told of neither: the loop looks only once a round at what has changed, and nothing has.
        self._io.start(current.switch, READY)
        try:
            outcome = self._hub.switch()
            while outcome is not READY and outcome is not OVER:  # somebody else's doing
                outcome = self._hub.switch()
        finally:
            self._io.stop()
            self._waiting = None
        return outcome is READY

    def rouse(self) -> None:
        """End a wait now. From this thread, be it in the hub or in any greenlet."""
        self._hub.loop.run_callback(self._end_wait)

    def close(self) -> None:
        """Wait no more, ever. Any number of times."""
        self._io.stop()
        self._io.close()
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()

    def _end_wait(self) -> None:
        if self._waiting is not None:
            self._waiting.switch(OVER)

    def _set_alarm(self, until: float) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
        self._timer = self._hub.loop.timer(max(0.0, until - time.monotonic()))
        self._timer.start(self._ring)
        self._rings_at = until

    def _ring(self) -> None:
        self._rings_at = None
        if self._until is None or self._waiting is None:
            return
        if time.monotonic() >= self._until:
            self._end_wait()
        else:
            self._set_alarm(self._until)


def readable(descriptor: int) -> Readable | None:
    """Return what waits for a socket where threads are greenlets; elsewhere nothing."""
    return Readable(descriptor) if is_patched() else None


class Turn:
    """Passes the waiting for a socket from whoever runs a generator on to whoever takes from it.

    As long as it is not that one's turn, a generator waits in a thread of its own. Once all it does is to read one
    socket, it begins the turn: from then on it is advanced by whoever takes, and yields an empty item when `until` has
    come, or the wait was ended by `readable.rouse()`.

    Attributes:
        readable: what is waited for; `None`: it is not yet that one's turn.
        until: when the generator must be back, in seconds of the monotonic clock; `None`: any time.
        take: returns the next item of a generator that it is given, or `ENDED`; there may be a shorter way to one.
    """

    __slots__ = ("readable", "until", "take")

    def __init__(self) -> None:
        self.readable: Readable | None = None
        self.until: float | None = None
        self.take: Callable[[Iterator[Any]], Any] = _next

    def begin(self, readable: Readable) -> None:
        """Say what the generator waits for, from its next item on."""
        self.readable = readable

    @property
    def has_begun(self) -> bool:
        """It is the turn of whoever takes."""
        return self.readable is not None


def _next(items: Iterator[Any]) -> Any:
    return next(items, ENDED)
