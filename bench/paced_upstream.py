"""A model that says a token to each client at a pace, in one thread with one epoll: `python -m bench.paced_upstream`.

It speaks as OpenAI's API does, in chunks. Its first line of output is its base URL. The `model` of a request says what
is wanted, `NAME?interval_ms=50&tokens=0&...`, see `Wanted`. Each token carries the time at which it was sent, of the
monotonic clock in nanoseconds, behind an `@`: whoever reads it on this machine knows how long it was under way.
"""

from __future__ import annotations

import gc
import heapq
import json
import os
import random
import select
import socket
import time
from dataclasses import dataclass, field, fields
from typing import Iterator
from urllib.parse import parse_qsl

from bench import descriptors

STAMP_DIGITS = 16
"""Of the time in a token: enough for a machine that has been up for a hundred days."""

_EVENT = (
    b'data: {"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741569952,'
    b'"model":"gpt-4o","choices":[{"index":0,"delta":{"content":" token @%016d%b"},"finish_reason":null}]}\n\n'
)
_DONE = b"data: [DONE]\n\n"
_LAST_CHUNK = b"0\r\n\r\n"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_LENGTH = b"content-length:"

_NS = 1_000_000_000


@dataclass(frozen=True)
class Wanted:
    """What a client wants, told in the model's name.

    Attributes:
        interval_ms: between two tokens of one stream; 0: all are written at once.
        tokens: after which the answer ends; 0: it never does.
        size: of the event of each token, in bytes.
        at_once: the first token is not sent at a random time within the first interval, but with the headers.
        silent: after the first token nothing more is said.
    """

    interval_ms: float = 50
    tokens: float = 0
    size: float = 220
    at_once: float = 0
    silent: float = 0

    @classmethod
    def parse(cls, model: str) -> Wanted:
        given = dict(parse_qsl(model.partition("?")[2]))
        return cls(**{one.name: float(given[one.name]) for one in fields(cls) if one.name in given})

    @property
    def padding(self) -> bytes:
        return b"." * max(0, int(self.size) - len(_EVENT % (0, b"")))


def plain_event(size: int) -> bytes:
    """Return a token that is sent now, of so many bytes."""
    return _EVENT % (time.monotonic_ns(), Wanted(size=size).padding)


def _token(padding: bytes) -> bytes:
    data = _EVENT % (time.monotonic_ns(), padding)
    return b"%x\r\n%b\r\n" % (len(data), data)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass(eq=False)
class _Peer:
    socket: socket.socket
    received: bytes = b""
    wanted: Wanted = field(default_factory=Wanted)
    padding: bytes = b""
    interval: int = 0  # nanoseconds
    said: int = 0
    speaks: bool = False
    waiting: bytearray = field(default_factory=bytearray)
    gone: bool = False


class PacedUpstream:
    """Serves for ever.

    Attributes:
        sent: tokens so far. A GET is told it, and how many clients there are.
    """

    def __init__(self) -> None:
        # The first descriptors: select() takes none above 1023.
        self._epoll = select.epoll()
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(4096)
        self._listener.setblocking(False)
        self._epoll.register(self._listener, select.EPOLLIN)
        self._peers: dict[int, _Peer] = {}
        self._due: list[tuple[int, int, _Peer]] = []
        self.sent = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def serve(self) -> None:
        epoll = self._epoll.fileno()
        while True:
            self._say_what_is_due()
            # select() waits as exactly as the kernel can; epoll's milliseconds would make the tokens come in groups.
            delay = max(0, self._due[0][0] - time.monotonic_ns()) / _NS if self._due else None
            readable, _, _ = select.select([epoll], (), (), delay)
            if readable:
                for descriptor, what in self._epoll.poll(0):
                    self._serve_one(descriptor, what)

    def _say_what_is_due(self) -> None:
        now = time.monotonic_ns()
        due = self._due
        while due and due[0][0] <= now:
            at, key, peer = due[0]
            if peer.gone or not peer.speaks:
                heapq.heappop(due)
                continue
            self._say(peer)
            if peer.speaks:
                heapq.heapreplace(due, (at + peer.interval, key, peer))
            else:
                heapq.heappop(due)

    def _say(self, peer: _Peer) -> None:
        data = _token(peer.padding)
        peer.said += 1
        self.sent += 1
        if peer.said == peer.wanted.tokens:
            data += _chunk(_DONE) + _LAST_CHUNK
            peer.speaks = False
        elif peer.wanted.silent:
            peer.speaks = False
        if peer.waiting:
            peer.waiting += data
            return
        self._send(peer, data)

    def _send(self, peer: _Peer, data: bytes) -> None:
        try:
            sent = peer.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._part(peer)
            return
        if sent < len(data):
            peer.waiting += data[sent:]
            self._epoll.modify(peer.socket, select.EPOLLIN | select.EPOLLOUT)

    def _serve_one(self, descriptor: int, what: int) -> None:
        peer = self._peers.get(descriptor)
        if peer is None:
            self._accept()
        elif what & (select.EPOLLERR | select.EPOLLHUP):
            self._part(peer)
        else:
            if what & select.EPOLLIN:
                self._read(peer)
            if what & select.EPOLLOUT and not peer.gone:
                self._flush(peer)

    def _accept(self) -> None:
        for _ in range(64):  # at a time: whoever speaks has its turn
            try:
                accepted, _ = self._listener.accept()
            except BlockingIOError:
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[accepted.fileno()] = _Peer(accepted)
            self._epoll.register(accepted, select.EPOLLIN)

    def _read(self, peer: _Peer) -> None:
        try:
            data = peer.socket.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._part(peer)
            return
        peer.received += data
        for request in _requests(peer):
            self._answer(peer, request)

    def _answer(self, peer: _Peer, body: bytes) -> None:
        if not body:
            state = json.dumps({"sent": self.sent, "open": len(self._peers) - 1}).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(state)}\r\n\r\n"
            self._send(peer, head.encode() + state)
            return
        peer.wanted = Wanted.parse(str(json.loads(body).get("model")))
        peer.padding = peer.wanted.padding
        peer.interval = round(peer.wanted.interval_ms * 1e6)
        peer.said = 0
        peer.speaks = True
        if not peer.interval:
            count = int(peer.wanted.tokens)
            self.sent += count
            peer.speaks = False
            self._send(peer, _HEAD + b"".join(_token(peer.padding) for _ in range(count)) + _chunk(_DONE) + _LAST_CHUNK)
            return
        self._send(peer, _HEAD)
        first = time.monotonic_ns()
        if not peer.wanted.at_once:
            first += round(random.random() * peer.interval)
        heapq.heappush(self._due, (first, id(peer), peer))
        if peer.wanted.at_once:
            self._say_what_is_due()

    def _flush(self, peer: _Peer) -> None:
        try:
            del peer.waiting[: peer.socket.send(peer.waiting)]
        except BlockingIOError:
            return
        except OSError:
            self._part(peer)
            return
        if not peer.waiting:
            self._epoll.modify(peer.socket, select.EPOLLIN)

    def _part(self, peer: _Peer) -> None:
        if not peer.gone:
            peer.gone = True
            del self._peers[peer.socket.fileno()]
            peer.socket.close()


def _requests(peer: _Peer) -> Iterator[bytes]:
    """Yield the body of each request that is here; it is empty for a GET."""
    while True:
        head, blank, rest = peer.received.partition(b"\r\n\r\n")
        if not blank:
            return
        lengths = [line[len(_LENGTH) :] for line in head.lower().split(b"\r\n") if line.startswith(_LENGTH)]
        length = int(lengths[0]) if lengths else 0
        if len(rest) < length:
            return
        peer.received = rest[length:]
        yield rest[:length]


def main() -> None:
    gc.disable()
    descriptors.allow_all()
    upstream = PacedUpstream()
    os.write(1, upstream.url.encode() + b"\n")
    try:
        upstream.serve()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
