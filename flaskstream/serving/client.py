"""Notice that a client has gone while nothing is written to it.

A first write after the client's FIN still succeeds, so a stream that only writes needs two heartbeats to notice, and
pays for tokens meanwhile. Here the kernel is asked instead: one epoll for a process holds the sockets of all open
streams. It costs nothing until one of them ends; it is told of a FIN also behind bytes that nobody has read, such as a
pipelined request, and of a RST.

A FIN alone does not say that the client has gone: it may have shut down its writing side only, and still read. The
difference shows when something is written: whoever has gone answers with a RST.

A server that is told of that by a failed write closes its socket, and the body. Where a middleware keeps it from
closing the body, nobody tells the stream. So once a second it is looked whose socket has been closed.

And whose time is over: a server that writes to a client that takes nothing waits for that client, and asks the stream
for nothing more, which so never comes to its own end. Only the end of the connection wakes the server.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import threading
import time
from contextlib import closing, suppress
from typing import Any, Callable, Mapping

from flaskstream.native import is_patched, original
from flaskstream.serving.uwsgi import uwsgi_connection

_SOCKET_KEYS = ("gunicorn.socket", "werkzeug.socket")
"""Where WSGI servers leave the client's socket, those that do."""

VANISHED_SECONDS = 120
"""A client whose machine lost its power or its network sends no FIN. What was written to it, heartbeats too, may stay
without an answer for so long; then the connection is dead (TCP_USER_TIMEOUT). Linux counts the time for which a client
that is there reads nothing as well, so it must outlast a pause."""

LOOK_SECONDS = 1.0
"""How often it is looked whose socket has been closed by the server."""

LATE_SECONDS = 2.0
"""How long after its deadline a stream may still be sent its end."""

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""Linger on, for no time: what was not sent is thrown away, and whoever reads on is told of a reset."""

Tell = Callable[[bool], None]


def client_socket(environ: Mapping[str, Any]) -> Any:
    """Return the client's socket; `None` where the server offers none: then heartbeats have to do.

    It has `fileno` and `setsockopt`, and is the server's: nobody else closes it.
    """
    shown = next((environ[key] for key in _SOCKET_KEYS if hasattr(environ.get(key), "fileno")), None)
    return uwsgi_connection(environ) if shown is None else shown


class _Watched:
    """One client's socket, whom to tell, and when its time is over."""

    def __init__(self, client: Any, tell: Tell, deadline: float | None) -> None:
        self.client = client
        self.descriptor: int = client.fileno()
        self.tell = tell
        self._cut_at = None if deadline is None else deadline + LATE_SECONDS
        self._identity = os.fstat(self.descriptor).st_ino  # the number alone may be another's one day

    def is_closed(self) -> bool:
        return bool(self.client.fileno() != self.descriptor)

    def cut_if_late(self) -> None:
        """Shut the connection down, once, if its time is over: whoever waits to write to it then fails."""
        if self._cut_at is None or time.monotonic() < self._cut_at:
            return
        self._cut_at = None
        with suppress(OSError):  # closed meanwhile
            self._cut()

    def _cut(self) -> None:
        # A copy: the server's own may be wrapped in TLS, or by gevent, and is in use.
        with closing(original("socket", "socket")(fileno=os.dup(self.descriptor))) as copy:
            if os.fstat(copy.fileno()).st_ino == self._identity:
                copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
                copy.shutdown(socket.SHUT_RDWR)


class ClientWatch:
    """Watches the sockets of open streams; one for a process.

    Its lock is the kernel thread's own and can be taken twice, and what is gone through is a copy: a stream that the
    garbage collector finds in the middle of all this stops its watch here too.
    """

    def __init__(self) -> None:
        self._epoll = original("select", "epoll")()
        self._watched: dict[int, _Watched] = {}  # by descriptor
        self._lock = original("_thread", "RLock")()  # never held while anything waits
        _call_when_readable(self._epoll, self._look, self._look_now_and_then)

    def watch(self, client: Any, tell: Tell, deadline: float | None = None) -> Callable[[], None]:
        """Have `tell` called when the client ends its side; return what stops that.

        Args:
            client: its socket.
            tell: called with `False` at a FIN, and with `True` when the connection is dead, or closed while it is
                watched. It must not wait.
            deadline: in seconds of the monotonic clock: `LATE_SECONDS` after it the connection is shut down if it is
                still watched; `None`: never.
        """
        watched = _Watched(client, tell, deadline)
        descriptor = watched.descriptor
        with self._lock:
            before = self._watched.get(descriptor)
            self._watched[descriptor] = watched
            try:
                self._epoll.register(descriptor, _FIN)
            except FileExistsError:  # the stream before, on the same connection, was never closed
                self._epoll.modify(descriptor, _FIN)
        if before is not None:  # its socket was closed, or the number would not be another client's
            before.tell(True)

        def stop() -> None:
            with self._lock:
                if self._watched.get(descriptor) is watched:
                    del self._watched[descriptor]
                    self._forget(descriptor)

        return stop

    def _forget(self, descriptor: int) -> None:
        try:
            self._epoll.unregister(descriptor)
        except OSError:
            pass  # closed already, and so forgotten by the kernel

    def _look(self) -> None:
        for descriptor, events in self._epoll.poll(0):
            is_dead = bool(events & _DEAD)
            with self._lock:
                watched = self._watched.get(descriptor)
                if is_dead:
                    self._forget(descriptor)
                elif watched is not None:
                    self._quieten(descriptor)
            if watched is not None:
                watched.tell(is_dead)

    def _quieten(self, descriptor: int) -> None:
        try:
            self._epoll.modify(descriptor, 0)  # a dead connection is told all the same
        except OSError:
            pass  # closed already

    def _look_now_and_then(self) -> None:
        with self._lock:
            closed = [watched for watched in list(self._watched.values()) if watched.is_closed()]
            closed = [watched for watched in closed if self._watched.pop(watched.descriptor, None) is not None]
            for watched in list(self._watched.values()):
                watched.cut_if_late()
        for watched in closed:
            watched.tell(True)


_FIN = getattr(select, "EPOLLRDHUP", 0x2000)
_DEAD = getattr(select, "EPOLLERR", 0x8) | getattr(select, "EPOLLHUP", 0x10)


def _call_when_readable(epoll: Any, callback: Callable[[], None], now_and_then: Callable[[], None]) -> None:
    """An epoll can itself be waited for: gevent's hub does it; elsewhere a thread."""
    if is_patched():
        import gevent

        loop = gevent.get_hub().loop
        watcher = loop.io(epoll.fileno(), 1, ref=False)  # 1: readable
        watcher.start(callback)
        timer = loop.timer(LOOK_SECONDS, LOOK_SECONDS, ref=False)
        timer.start(now_and_then)
        _kept.extend((watcher, timer))
        return

    def wait_for_ever() -> None:
        poll = select.poll()
        poll.register(epoll.fileno(), select.POLLIN)
        look_at = time.monotonic() + LOOK_SECONDS
        while True:
            if poll.poll(max(0.0, look_at - time.monotonic()) * 1000):
                callback()
            if time.monotonic() >= look_at:
                now_and_then()
                look_at = time.monotonic() + LOOK_SECONDS

    threading.Thread(target=wait_for_ever, name="flaskstream-clients", daemon=True).start()


_kept: list[Any] = []
_watches: dict[int, ClientWatch] = {}
_making = threading.Lock()


def _own_watch() -> ClientWatch:
    """Return the watch of this process: a forked worker has its own, and its first streams may begin at once."""
    with _making:
        pid = os.getpid()
        if pid not in _watches:
            _watches[pid] = ClientWatch()
        return _watches[pid]


def watch_client(client: Any, tell: Tell, deadline: float | None = None) -> Callable[[], None]:
    """Have `tell` called when the client ends its side, and bound how long a client may be silent that has vanished.

    Args:
        client: its socket; `None`, or a system without epoll: nothing is watched.
        tell, deadline: see `ClientWatch.watch`.

    Returns:
        What stops it; any number of times.
    """
    if client is None or sys.platform != "linux" or client.fileno() < 0:
        return _nothing
    try:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, VANISHED_SECONDS * 1000)
    except OSError:
        pass  # a Unix socket, behind a proxy on the same machine
    try:
        return _own_watch().watch(client, tell, deadline)
    except OSError:  # no descriptor left, for instance: then heartbeats have to do
        return _nothing


def _nothing() -> None:
    """Stop nothing: nothing was watched."""
