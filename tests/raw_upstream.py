"""An upstream that plays bytes: for what the embedded model cannot say, down to the byte of the framing.

A test tells it what to play and gets the name of a model; whoever asks for this model gets the play.

    model = upstream.plays(head("chunked") + chunk(b"data: a\\n\\n"), Pause(0.1), end="reset")
"""

from __future__ import annotations

import fcntl
import json
import select
import socket
import ssl
import struct
import termios
import threading
import time
from dataclasses import dataclass, field
from http.client import responses
from typing import Any

from flaskstream.upstream import Upstream

PATIENCE = 30.0
"""Seconds that nothing here takes, unless the test fails."""

FRAMINGS = {
    "chunked": "HTTP/1.1 {}\r\nTransfer-Encoding: chunked\r\n",
    "close": "HTTP/1.1 {}\r\nConnection: close\r\n",
    "http10": "HTTP/1.0 {}\r\n",
    "length": "HTTP/1.1 {}\r\nContent-Length: {}\r\n",
}
"""The first lines of an answer."""

FINAL_CHUNK = b"0\r\n\r\n"
_TLS_HANDSHAKE = b"\x16"


@dataclass(frozen=True)
class Pause:
    """Between two writes; the peer's going is noticed meanwhile."""

    seconds: float


@dataclass
class Asked:
    """One request, and what became of it."""

    model: str
    head: bytes
    payload: dict[str, Any]
    connection: int
    at: float = field(default_factory=time.monotonic)
    over: bool = False
    left_at: float | None = None  # when the client was seen to have left; None: it stayed to the end

    def header(self, name: str) -> str | None:
        for line in self.head.decode("latin-1").split("\r\n"):
            field_name, _, value = line.partition(":")
            if field_name.lower() == name.lower():
                return value.strip()
        return None


def head(
    framing: str, *headers: str, status: int = 200, length: int = 0, content_type: str = "text/event-stream"
) -> bytes:
    lines = [f"Content-Type: {content_type}"] if content_type else []
    first = FRAMINGS[framing].format(f"{status} {responses.get(status, 'Error')}", length)
    return (first + "".join(f"{line}\r\n" for line in [*lines, *headers]) + "\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def answer(framing: str, *events: bytes, status: int = 200, headers=(), content_type: str = "text/event-stream"):
    """A whole answer, each event in a chunk of its own."""
    body = b"".join(events)
    first = head(framing, *headers, status=status, length=len(body), content_type=content_type)
    return first + (b"".join(map(chunk, events)) + FINAL_CHUNK if framing == "chunked" else body)


class _Left(Exception):
    """The client went."""


class RawUpstream:
    """Listens from construction until `close()`.

    Attributes:
        url: the base URL.
        asked: the requests so far, oldest first.
        open_connections: how many clients are connected now.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._plays: dict[str, tuple[tuple[bytes | Pause, ...], str]] = {}
        self._turns: dict[str, list[tuple[tuple[bytes | Pause, ...], str]]] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._threads: list[threading.Thread] = []
        self._count = 0
        self.asked: list[Asked] = []
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(128)
        scheme, port = "https" if tls else "http", self._listener.getsockname()[1]
        self.url = f"{scheme}://127.0.0.1:{port}/v1"
        self._start(self._accept)

    def plays(self, *steps: bytes | Pause, end: str = "keep") -> str:
        """Remember a play; return the model to ask for.

        Args:
            steps: written one by one, each at once.
            end: "keep" the connection for the next request, "fin", "reset", or "hold" it open until the client leaves.
        """
        model = f"play-{len(self._plays)}"
        self._plays[model] = (steps, end)
        return model

    def plays_in_turn(self, *models: str) -> str:
        """Remember a sequence of plays; return the model to ask for. The last one is played from then on."""
        model = self.plays()
        self._turns[model] = [self._plays[name] for name in models]
        return model

    def asked_for(self, model: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.model == model]

    def wait_until_over(self, model: str) -> Asked:
        """Return the last request for this model when its play is over."""
        wait_for(lambda: self.asked_for(model) and self.asked_for(model)[-1].over)
        return self.asked_for(model)[-1]

    @property
    def open_connections(self) -> int:
        return len(self._sockets)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._sockets.values()):
            _shut(connection)
        for thread in self._threads:
            thread.join(PATIENCE)

    def _start(self, target, *arguments) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._count += 1
            self._sockets[self._count] = connection
            self._start(self._serve, self._count, connection)

    def _serve(self, number: int, connection: socket.socket) -> None:
        try:
            connection.settimeout(PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            while self._serve_one(number, connection):
                pass
        except (OSError, _Left):
            pass
        finally:
            connection.close()
            del self._sockets[number]

    def _play_of(self, model: str) -> tuple[tuple[bytes | Pause, ...], str]:
        turns = self._turns.get(model)
        if turns:
            return turns.pop(0) if len(turns) > 1 else turns[0]
        return self._plays.get(model, ((), "fin"))

    def _serve_one(self, number: int, connection: socket.socket) -> bool:
        first, payload = _read_request(connection)
        asked = Asked(payload.get("model", ""), first, payload, number)
        self.asked.append(asked)
        steps, end = self._play_of(asked.model)
        try:
            for step in steps:
                if isinstance(step, Pause):
                    _wait_for_the_client_to_leave(connection, step.seconds)
                else:
                    connection.sendall(step)
            if end == "hold":
                _wait_for_the_client_to_leave(connection, PATIENCE)
        except (OSError, _Left):
            asked.left_at = time.monotonic()
            raise
        finally:
            asked.over = True
        if end == "reset":
            # Linger on, for 0 seconds: close() resets. What was sent must have been taken before.
            _wait_until_taken(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return end == "keep"


def _read_request(connection: socket.socket) -> tuple[bytes, dict[str, Any]]:
    received = b""
    while b"\r\n\r\n" not in received:
        received += _receive(connection)
        if received.startswith(_TLS_HANDSHAKE):
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")  # as every server without TLS does
            raise _Left
    first, _, body = received.partition(b"\r\n\r\n")
    length = int(Asked("", first, {}, 0).header("Content-Length") or 0)
    while len(body) < length:
        body += _receive(connection)
    return first, json.loads(body)


def _receive(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise _Left
    return data


def _wait_for_the_client_to_leave(connection: socket.socket, seconds: float) -> None:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    if poll.poll(seconds * 1000):
        raise _Left  # a client has nothing to say while it is answered


def _wait_until_taken(connection: socket.socket) -> None:
    """Wait until all that was sent is acknowledged: a reset throws away the rest."""
    wait_for(lambda: _unacknowledged(connection) == 0 or _has_gone(connection))


def _has_gone(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(0))


def _unacknowledged(connection: socket.socket) -> int:
    return struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]


def polite_end(played: bytes) -> str:
    """How a server ends this: it stays connected, unless the end of the connection is that of the answer."""
    first, _, body = played.partition(b"\r\n\r\n")
    length = Asked("", first, {}, 0).header("Content-Length")
    is_whole = length == str(len(body)) or (b"chunked" in first and body.endswith(FINAL_CHUNK))
    return "keep" if is_whole else "fin"


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has gone


def wait_for(look, seconds: float = PATIENCE) -> None:
    """Wait until `look()` is true; fail if it never is."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.005)


def body_of(upstream: Upstream, model: str) -> bytes:
    """Ask for a play in this process, and return its body."""
    with upstream.open("chat/completions", {"model": model}) as opened:
        return b"".join(opened.chunks())
