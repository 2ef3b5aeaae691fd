"""An upstream in one thread and with one epoll, which tells at once when it is left, however much is going on.

It is a program: its first line of output is its base URL, and after that each line is one JSON object:
`{"stream": ..., "happened": "asked" | "left", "how": "fin" | "reset" | null, "at": seconds of the monotonic clock}`.
The stream is what a request gave as its `model`, `STATE-NUMBER`; the state says what it is answered.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import time
from dataclasses import dataclass, field

TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(TOKEN), TOKEN)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOOD = CHUNK * 200
"""What is written at a time, for as long as it is taken."""

ANSWERS = {
    "before_head": b"",
    "after_head": HEAD,
    "mid_stream": HEAD + CHUNK,
    "flooding": HEAD + CHUNK,
}
"""What is sent in each state before the silence, or before the flood."""

_FIN, _DEAD = select.EPOLLRDHUP, select.EPOLLERR | select.EPOLLHUP


@dataclass
class _Peer:
    socket: socket.socket
    received: bytes = b""
    stream: str = ""
    waiting: bytearray = field(default_factory=bytearray)

    @property
    def floods(self) -> bool:
        return self.stream.startswith("flooding")


class _Upstream:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._peers: dict[int, _Peer] = {}
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(1024)
        self._epoll.register(self._listener, select.EPOLLIN)
        _tell(f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1")

    def serve(self) -> None:
        while True:
            events = self._epoll.poll()
            now = time.monotonic()  # for all of them: what is done for one must not count for the next
            for descriptor, what in events:
                peer = self._peers.get(descriptor)
                if peer is None:
                    self._accept()
                elif what & (_FIN | _DEAD):
                    self._part(peer, "reset" if what & select.EPOLLERR else "fin", now)
                elif what & select.EPOLLIN:
                    self._read(peer, now)
                elif what & select.EPOLLOUT:
                    self._write(peer, now)

    def _accept(self) -> None:
        accepted, _ = self._listener.accept()
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers[accepted.fileno()] = _Peer(accepted)
        self._epoll.register(accepted, select.EPOLLIN | _FIN)

    def _read(self, peer: _Peer, now: float) -> None:
        peer.received += peer.socket.recv(65536)
        try:
            peer.stream = json.loads(peer.received.partition(b"\r\n\r\n")[2])["model"]
        except ValueError:
            return  # not all of it is here
        peer.received = b""
        _note(peer.stream, "asked", None, now)
        peer.waiting += ANSWERS[peer.stream.rpartition("-")[0]]
        self._write(peer, now)

    def _write(self, peer: _Peer, now: float) -> None:
        try:
            while peer.waiting:
                del peer.waiting[: peer.socket.send(peer.waiting)]
        except BlockingIOError:
            pass
        except OSError as error:
            self._part(peer, "reset" if error.errno == errno.ECONNRESET else "fin", time.monotonic())
            return
        if peer.floods and not peer.waiting:
            peer.waiting += FLOOD  # and the others have their turn first
        wanted = select.EPOLLOUT if peer.waiting else 0
        self._epoll.modify(peer.socket, select.EPOLLIN | _FIN | wanted)

    def _part(self, peer: _Peer, how: str, now: float) -> None:
        if peer.stream:
            _note(peer.stream, "left", how, now)
        del self._peers[peer.socket.fileno()]
        peer.socket.close()


def _note(stream: str, happened: str, how: str | None, at: float) -> None:
    _tell(json.dumps({"stream": stream, "happened": happened, "how": how, "at": at}))


def _tell(line: str) -> None:
    os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    try:
        _Upstream().serve()
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # whoever started it has gone
