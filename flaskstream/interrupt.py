"""Wake a thread that waits for a socket, from another thread: by shutting that socket down.

A greenlet can be interrupted wherever it waits. A thread cannot, and would hold an upstream open until its next token
long after the client has gone. So whoever waits for a socket says so here, to the pump whose thread it is.
"""

from __future__ import annotations

import socket
import threading
from typing import Any, Callable

_here = threading.local()


class Interrupts:
    """What one thread waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # so that no socket is shut down that is somebody else's by then
        self._sockets: dict[int, Callable[[], Any]] = {}
        self._is_interrupted = False

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
            for find in self._sockets.values():
                _shut_down(find())

    def add(self, who: object, find: Callable[[], Any]) -> None:
        with self._lock:
            self._sockets[id(who)] = find
            if self._is_interrupted:
                _shut_down(find())

    def remove(self, who: object) -> None:
        with self._lock:
            self._sockets.pop(id(who), None)


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


def _shut_down(found: Any) -> None:
    if found is not None:
        try:
            # Below TLS: its own shutdown would change what the other thread is using.
            socket.socket.shutdown(found, socket.SHUT_RDWR)
        except (OSError, TypeError):
            pass  # closed meanwhile, or no socket of the standard library
