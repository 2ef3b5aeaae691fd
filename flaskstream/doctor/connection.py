"""A connection to the peer, plain or TLS, every wait of which ends in time."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from urllib.parse import urlsplit

from flaskstream.doctor.request import BEST, PORTS, Request, speaks_http2
from flaskstream.errors import FlaskStreamError

READ_BYTES = 64 * 1024
"""The most that one read takes: a loopback segment, so that a burst is one read."""

_ALPN_LOCK = threading.Lock()


class ConnectionEnded(FlaskStreamError):
    """The connection is over, or never was.

    Attributes:
        how: as `Exchange.ended` has it.
        error: what was expected and what came.
    """

    def __init__(self, how: str, error: str) -> None:
        super().__init__(error)
        self.how, self.error = how, error


class Patience:
    """How long to wait for the peer: for each step, and in all."""

    def __init__(self, request: Request) -> None:
        self.began_at = time.monotonic()
        self._request = request
        self._leave_at = None if request.max_seconds is None else self.began_at + request.max_seconds

    @property
    def is_over(self) -> bool:
        """The client leaves now, whatever comes."""
        return self._leave_at is not None and time.monotonic() >= self._leave_at

    @property
    def seconds(self) -> float:
        """How many to wait now: never 0, which would mean something else to a socket."""
        if self._leave_at is None:
            return self._request.timeout
        return max(0.001, min(self._request.timeout, self._leave_at - time.monotonic()))

    def lost(self, awaited: str) -> ConnectionEnded:
        """Return what to raise when this did not come."""
        if self.is_over:
            return ConnectionEnded("left", f"expected the end within {self._request.max_seconds} s, got none")
        return ConnectionEnded("timeout", f"expected {awaited} within {self._request.timeout} s, got nothing")


class Connection:
    """Made open; `close()` or `reset()` ends it, and once is enough.

    Args:
        request: whom to connect to, and how.
        patience: for this and for all that is done here; running out of it is a `ConnectionEnded`, too.

    Attributes:
        connect_seconds: how long the TCP connection took: one round trip.
        address: "ADDRESS:PORT" of this client, as the peer sees it if nothing is between.
        http_version: the one to speak: that of the request, or what was agreed with the peer.

    Raises:
        ConnectionEnded: no listener, no such name, TLS failed, or nobody there speaks HTTP/2 where that was asked for.
    """

    def __init__(self, request: Request, patience: Patience) -> None:
        self._patience = patience
        try:
            self._socket = self._connected(request)
            self.http_version = _agreed(self._socket, request)
        except socket.timeout:
            raise patience.lost("a connection") from None
        except (OSError, UnicodeError) as error:  # UnicodeError: a host name that DNS cannot carry
            message = f"expected a connection, got {error or type(error).__name__}"
            raise ConnectionEnded("refused", message) from error

    def _connected(self, request: Request) -> socket.socket:
        parts = urlsplit(request.url)
        host = parts.hostname or ""
        port = parts.port or PORTS[parts.scheme]
        plain = socket.create_connection((host, port), timeout=self._patience.seconds)
        try:
            self.connect_seconds = time.monotonic() - self._patience.began_at
            self.address = "{}:{}".format(*plain.getsockname()[:2])
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a long body must not wait for an ACK
            return _secured(plain, host, request) if parts.scheme == "https" else plain
        except BaseException:
            plain.close()
            raise

    def send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(self._patience.seconds)
            self._socket.sendall(data)
        except socket.timeout:
            raise self._patience.lost("to be rid of the request") from None
        except OSError as error:
            raise ConnectionEnded("reset", f"expected to be rid of the request, got {error}") from error

    def receive(self) -> bytes:
        """Return what one read gives; nothing: the peer closed."""
        if self._patience.is_over:
            raise self._patience.lost("the end")
        try:
            self._socket.settimeout(self._patience.seconds)
            return self._socket.recv(READ_BYTES)
        except socket.timeout:
            raise self._patience.lost("more") from None
        except OSError as error:
            raise ConnectionEnded("reset", f"expected more, got {error}") from error

    def close(self, farewell: bytes = b"") -> None:
        """Close so that the peer sees a plain end, after these bytes if they can be sent without waiting.

        Linux answers close() with RST when bytes are left unread. So the FIN goes first, and what is here already
        is thrown away; the bound is for a peer that sends faster than that.
        """
        try:
            self._socket.setblocking(False)
            _say(self._socket, farewell)
            self._socket.shutdown(socket.SHUT_WR)
            for _ in range(64):
                if not self._socket.recv(READ_BYTES):
                    break
        except (OSError, ValueError):
            pass  # the peer went first, or there is nothing to throw away
        finally:
            self._socket.close()

    def reset(self) -> None:
        """Go with RST, as a client that dies."""
        # Linger on, for 0 seconds: close() throws away what is unsent and resets.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


def _say(connection: socket.socket, farewell: bytes) -> None:
    try:
        if farewell:
            connection.send(farewell)
    except OSError:
        pass  # it does not listen, and is left all the same


def _offered(http_version: str) -> list[str]:
    """Return what is offered by ALPN (RFC 7301) for the version of a request."""
    is_offered = http_version == "2" or (http_version == BEST and speaks_http2())
    return ["h2", "http/1.1"] if is_offered else ["http/1.1"]


def _agreed(connection: socket.socket, request: Request) -> str:
    if request.http_version != BEST:
        return request.http_version
    is_2 = isinstance(connection, ssl.SSLSocket) and connection.selected_alpn_protocol() == "h2"
    return "2" if is_2 else "1.1"


def _secured(plain: socket.socket, host: str, request: Request) -> ssl.SSLSocket:
    """Return TLS over this connection; both are closed where that fails."""
    context = request.tls or ssl.create_default_context()
    with _ALPN_LOCK:  # the context may be shared by requests of other versions; a socket keeps what it began with
        context.set_alpn_protocols(_offered(request.http_version))
        secured = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
    try:
        secured.do_handshake()
        spoken = secured.selected_alpn_protocol()
        if request.http_version == "2" and spoken != "h2":
            raise ConnectionEnded("refused", f"expected a peer that speaks HTTP/2, got {spoken or 'one that does not'}")
    except BaseException:
        secured.close()
        raise
    return secured
