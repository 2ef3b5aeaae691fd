"""One connection of the embedded model: wait, write, and notice at once that the other side went.

A plain sleep would not see it, and a write does not either: the first one after a FIN still succeeds.
So every wait is a poll of the socket for the peer's end.
"""

from __future__ import annotations

import fcntl
import math
import select
import socket
import struct
import termios
import time

PATIENCE_SECONDS = 75.0
"""How long a peer may take nothing, or ask nothing on a kept connection: as long as nginx waits."""

_ACKNOWLEDGE_SECONDS = 0.001
_RDHUP = getattr(select, "POLLRDHUP", 0)  # Linux: the peer's end, also behind bytes that nobody read yet


class PeerLeft(Exception):
    """The other side closed, reset, or stopped reading for good.

    Attributes:
        seen_at: when that was noticed, in seconds of the monotonic clock.
    """

    def __init__(self) -> None:
        super().__init__("the peer left")
        self.seen_at = time.monotonic()


class Peer:
    """The other side of a connected socket, which stays the caller's to close."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection, _RDHUP or select.POLLIN)

    def wait(self, until: float) -> None:
        """Return at this time of the monotonic clock; never, for `math.inf`.

        A time that is over is no wait, and nothing is looked at.

        Raises:
            PeerLeft: as soon as the peer is gone.
        """
        while True:
            remaining = until - time.monotonic()
            if remaining <= 0:
                return
            seen = self._poll.poll(None if remaining == math.inf else remaining * 1000)
            if seen and self._is_gone(seen[0][1]):
                raise PeerLeft

    def _is_gone(self, flags: int) -> bool:
        if flags != select.POLLIN:
            return True
        if not socket.socket.recv(self._connection, 1, socket.MSG_PEEK):  # below TLS, which cannot peek
            return True
        self._poll.modify(self._connection, 0)  # its next request: no end of it can be seen behind that
        return False

    def send(self, data: bytes) -> None:
        """Write all of it, as one write.

        Raises:
            PeerLeft: the peer is gone, or took nothing for `PATIENCE_SECONDS`.
        """
        try:
            self._connection.sendall(data)
        except OSError as error:
            raise PeerLeft from error

    def wait_until_taken(self) -> None:
        """Return when the peer's kernel has all that was written: a reset throws away what it has not.

        Raises:
            PeerLeft: as for `send`.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._is_waiting_to_go():
            if time.monotonic() > deadline:
                raise PeerLeft
            self.wait(time.monotonic() + _ACKNOWLEDGE_SECONDS)

    def _is_waiting_to_go(self) -> bool:
        size = fcntl.ioctl(self._connection, termios.TIOCOUTQ, b"\0" * 4)
        return bool(struct.unpack("i", size)[0])

    def reset_on_close(self) -> None:
        """Let closing the socket send a RST in place of a FIN."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def say_no_more(self, seconds: float) -> None:
        """Close our half, and let the peer finish what it is sending, for at most so many seconds.

        To close with bytes unread would reset the connection, and take the answer away from the peer.
        """
        deadline = time.monotonic() + seconds
        try:
            self._connection.shutdown(socket.SHUT_WR)
            while time.monotonic() < deadline:
                self._connection.settimeout(max(deadline - time.monotonic(), _ACKNOWLEDGE_SECONDS))
                if not self._connection.recv(65536):
                    return
        except OSError:
            return  # gone, or still sending: it had its time
