"""Wake a thread that waits for a socket, from another thread: by shutting that socket down.

A greenlet can be interrupted wherever it waits. A thread cannot, and would hold an upstream open until its next token
long after the client has gone. So whoever waits for a socket says so here, to the pump whose thread it is.

Where there is no socket yet to shut down, while a connection is being made or before a retry, the thread asks by
itself: `check` and `wait` raise `GeneratorExit` in a thread that was interrupted, as gevent does in a greenlet.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any, Callable

_here = threading.local()


class Interrupts:
    """What one thread waits for.

    The garbage collector may find a stream, and interrupt its thread, in the middle of all this and in that very
    thread. So the lock can be taken twice, nothing is changed that is being gone through, and there is no
    `threading.Event`, whose own lock can be taken once.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # so that no socket is shut down that is somebody else's by then
        self._sockets: dict[int, Callable[[], Any]] = {}
        self._is_interrupted = False
        self._sleep = threading.Lock()  # free: the thread may not sleep any more
        self._sleep.acquire()

    def run(self, target: Callable[[], None]) -> None:
        """Call the target, whose waiting these are."""
        _here.interrupts = self
        try:
            target()
        finally:
            del _here.interrupts

    def interrupt(self) -> None:
        """End every wait of the thread, now and later. Called by another one."""
        with self._lock:
            self._is_interrupted = True
            for find in list(self._sockets.values()):
                _shut_down(find())
        with suppress(RuntimeError):  # it is free
            self._sleep.release()

    def add(self, who: object, find: Callable[[], Any]) -> None:
        with self._lock:
            self._sockets[id(who)] = find
            if self._is_interrupted:
                _shut_down(find())

    def remove(self, who: object) -> None:
        with self._lock:
            self._sockets.pop(id(who), None)

    def give_away(self, given: Any) -> None:
        with self._lock:
            for who in list(self._sockets):  # and no items(): making those may begin a collection
                if self._sockets.get(who, _none)() is given:
                    self._sockets.pop(who, None)

    def check(self, seconds: float = 0.0) -> None:
        """Raise `GeneratorExit` if the thread is interrupted within so many seconds. Called by that thread."""
        if not self._is_interrupted and seconds > 0:
            self._sleep.acquire(timeout=seconds)
        if self._is_interrupted:
            raise GeneratorExit


def waits_for(who: object, find: Callable[[], Any]) -> None:
    """Say that this thread may wait for a socket from now on.

    Args:
        who: names the wait.
        find: returns the socket at the time; `None`: there is none.
    """
    interrupts = getattr(_here, "interrupts", None)
    if interrupts is not None:
        interrupts.add(who, find)


def waits_no_longer(who: object) -> None:
    """Say that it does not any more: the socket may soon be somebody else's."""
    interrupts = getattr(_here, "interrupts", None)
    if interrupts is not None:
        interrupts.remove(who)


def gives_away(given: Any) -> None:
    """Say that a socket may be somebody else's from now on, whoever of this thread waited for it."""
    interrupts = getattr(_here, "interrupts", None)
    if interrupts is not None:
        interrupts.give_away(given)


def check() -> None:
    """Raise `GeneratorExit` if this thread's stream was closed; elsewhere do nothing.

    For what has a price, before it begins: a request that is sent will be paid for.
    """
    interrupts = getattr(_here, "interrupts", None)
    if interrupts is not None:
        interrupts.check()


def wait(seconds: float) -> None:
    """Sleep; raise `GeneratorExit` as soon as this thread's stream is closed."""
    interrupts = getattr(_here, "interrupts", None)
    if interrupts is not None:
        interrupts.check(seconds)
    else:
        time.sleep(seconds)  # in a greenlet it is interrupted by gevent


class Bell:
    """What one thread, or greenlet, waits at until another rings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # free: it has rung
        self._lock.acquire()

    def ring(self) -> None:
        """End the wait, now or the next one. From anywhere, and without waiting; rung twice is rung once."""
        if self._lock.locked():
            with suppress(RuntimeError):  # it is free by now
                self._lock.release()

    rouse = ring
    """There is no other way here: see `flaskstream.waiting.TurnBell`."""

    def wait(self, seconds: float) -> None:
        """Wait until it rings, or for so long; raise `GeneratorExit` as soon as this thread's stream is closed."""
        interrupts = getattr(_here, "interrupts", None)
        if interrupts is None:
            self._lock.acquire(timeout=seconds)
            return
        interrupts.add(self, self._ring_for_the_end)
        try:
            self._lock.acquire(timeout=seconds)
        finally:
            interrupts.remove(self)
        interrupts.check()

    def close(self) -> None:
        """Be done with it."""

    def _ring_for_the_end(self) -> None:
        """Stand where a socket would be found that is to be shut down."""
        self.ring()


def _none() -> None:
    """Find no socket."""


_RESET_WHEN_CLOSED = struct.pack("ii", 1, 0)


def _shut_down(found: Any) -> None:
    if found is not None:
        try:
            # What is read after a shutdown opens no window: an upstream that floods would wait a minute for one, if its
            # last byte was read and only an end, and no reset, were sent. And all this below TLS: its own shutdown
            # would change what the other thread is using.
            socket.socket.setsockopt(found, socket.SOL_SOCKET, socket.SO_LINGER, _RESET_WHEN_CLOSED)
            socket.socket.shutdown(found, socket.SHUT_RDWR)
        except (OSError, TypeError):
            pass  # closed meanwhile, or no socket of the standard library
