"""What the clients of a soak do: each asks on a socket of its own, reads in its own way, and notes what it got."""

from __future__ import annotations

import json
import random
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Callable
from urllib.parse import urlsplit

from relay_client import CHAT, COMPLETIONS

from soak.plays import Play

ROUTES = (CHAT, COMPLETIONS)
PATIENCE = 30.0
"""Seconds that no read takes, unless something is wrong."""

SLOW_READ_BYTES = 200
SLOW_SECONDS = 3.0
"""How long a slow client is slow: then it reads the rest at once."""


@dataclass
class Got:
    """One answer, as far as it came.

    Attributes:
        play, route, behaviour: what was asked, and how it was read.
        began_at, ended_at: in seconds of the monotonic clock.
        status: `None`: there was none.
        body: without its framing.
        is_proper: the framing told its end.
        left: the client left of its own accord, before any end.
        failure: how the connection failed; "": it did not.
    """

    play: Play
    route: str
    behaviour: str
    began_at: float = field(default_factory=time.monotonic)
    ended_at: float = 0.0
    status: int | None = None
    body: bytearray = field(default_factory=bytearray)
    is_proper: bool = False
    left: bool = False
    failure: str = ""


class _Left(Exception):
    """The client has had enough."""


class Client:
    """One connection.

    Args:
        url: of the server.
        most: how many bytes it reads before it leaves; `None`: all.
        is_slow: it reads little at a time.
    """

    def __init__(self, url: str, most: int | None = None, is_slow: bool = False) -> None:
        where = urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        if is_slow:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._slow_until = time.monotonic() + SLOW_SECONDS if is_slow else 0.0
        self.socket.connect((where.hostname, where.port))
        self._most = most
        self._buffer = bytearray()

    @property
    def seen(self) -> bytes:
        """What came, and is no part of an answer yet."""
        return bytes(self._buffer)

    def ask(self, *gots: Got) -> None:
        self.socket.sendall(b"".join(_request(got) for got in gots))

    def read(self, got: Got) -> None:
        """Read one answer, as far as it comes."""
        try:
            self._read(got)
        except _Left:
            got.left = True
        except (OSError, EOFError, ValueError) as error:
            got.failure = repr(error)
        got.ended_at = time.monotonic()

    def _read(self, got: Got) -> None:
        head = self._until(b"\r\n\r\n").lower()
        got.status = int(head.split()[1])
        if b"transfer-encoding: chunked" in head:
            self._read_chunks(got)
        else:
            (length,) = (line.split(b":")[1] for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
            got.body += self._exactly(int(length))
        got.is_proper = True

    def _read_chunks(self, got: Got) -> None:
        length = -1
        while length:
            length = int(self._until(b"\r\n"), 16)
            missing = length
            while missing:
                piece = self._some(missing)
                got.body += piece
                missing -= len(piece)
            if self._exactly(2) != b"\r\n":
                raise ValueError("expected the end of a chunk")

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._receive()
        end = self._buffer.index(mark) + len(mark)
        return self._take(end)

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._receive()
        return self._take(count)

    def _some(self, most: int) -> bytes:
        if not self._buffer:
            self._receive()
        return self._take(most)

    def _take(self, most: int) -> bytes:
        taken = bytes(self._buffer[:most])
        del self._buffer[:most]
        return taken

    def _receive(self) -> None:
        is_slow = time.monotonic() < self._slow_until
        size = SLOW_READ_BYTES if is_slow else 65536
        if is_slow:
            time.sleep(0.01)
        if self._most is not None:
            if self._most <= 0:
                raise _Left
            size = min(size, self._most)
        data = self.socket.recv(size)
        if not data:
            raise EOFError("the connection ended")
        if self._most is not None:
            self._most -= len(data)
        self._buffer += data


def _request(got: Got) -> bytes:
    fields = {"model": got.play.model, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    body = json.dumps(fields).encode()
    lines = (f"POST {got.route} HTTP/1.1", "Host: a", "Content-Type: application/json", f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _leave(client: Client, rng: random.Random) -> None:
    """By a RST, or by a FIN; with bytes unread the kernel makes a RST of the latter by itself."""
    if rng.random() < 0.5:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


Choose = Callable[[str], Got]
"""Makes up what is asked next by a client of this behaviour."""


def reads_all(url: str, choose: Choose, rng: random.Random) -> list[Got]:
    got = choose("reads_all")
    client = Client(url)
    with client.socket:
        client.ask(got)
        client.read(got)
    return [got]


def leaves(url: str, choose: Choose, rng: random.Random) -> list[Got]:
    """After so many bytes, be it in the middle of the head."""
    got = choose("leaves")
    client = Client(url, most=int(rng.expovariate(1 / 800)))
    with client.socket:
        client.ask(got)
        client.read(got)
        _leave(client, rng)
    return [got]


def leaves_at_once(url: str, choose: Choose, rng: random.Random) -> list[Got]:
    """Before it reads anything, maybe in the middle of its question."""
    got = choose("leaves_at_once")
    got.left = True
    client = Client(url)
    with client.socket:
        asked = _request(got)
        client.socket.sendall(asked[: rng.choice((rng.randint(0, len(asked)), len(asked)))])
        time.sleep(rng.choice((0.0, rng.uniform(0, 0.3))))
        _leave(client, rng)
    got.ended_at = time.monotonic()
    return [got]


def reads_slowly(url: str, choose: Choose, rng: random.Random) -> list[Got]:
    got = choose("reads_slowly")
    client = Client(url, is_slow=True)
    with client.socket:
        client.ask(got)
        client.read(got)
    return [got]


def never_reads(url: str, choose: Choose, rng: random.Random) -> list[Got]:
    got = choose("never_reads")
    got.left = True
    client = Client(url, is_slow=True)
    with client.socket:
        client.ask(got)
        time.sleep(rng.uniform(0.2, 2))
        _leave(client, rng)
    got.ended_at = time.monotonic()
    return [got]


def half_closes(url: str, choose: Choose, rng: random.Random) -> list[Got]:
    """It has said all it has to say, and reads on."""
    got = choose("half_closes")
    client = Client(url)
    with client.socket:
        client.ask(got)
        client.socket.shutdown(socket.SHUT_WR)
        client.read(got)
    return [got]


def pipelines(url: str, choose: Choose, rng: random.Random) -> list[Got]:
    """It asks for a second answer before it has the first. Threads of old gunicorns give none, and so it is no duty."""
    first, second = choose("pipelines"), choose("pipelines")
    client = Client(url)
    with client.socket:
        client.ask(first, second)
        client.read(first)
        if first.is_proper:
            second.began_at = first.ended_at
            client.read(second)
    return [first] if second.status is None else [first, second]


def asks_again(url: str, choose: Choose, rng: random.Random) -> list[Got]:
    """One answer after the other over one connection."""
    gots = []
    client = Client(url)
    with client.socket:
        for _ in range(rng.randint(2, 4)):
            got = choose("asks_again")
            client.ask(got)
            client.read(got)
            gots.append(got)
            if not got.is_proper:
                break
    return gots


BEHAVIOURS: dict[Callable[[str, Choose, random.Random], list[Got]], int] = {
    reads_all: 8,
    leaves: 5,
    leaves_at_once: 3,
    reads_slowly: 1,
    never_reads: 2,
    half_closes: 2,
    pipelines: 2,
    asks_again: 2,
}
"""How often each occurs beside the others."""


def do_something(url: str, choose: Choose, rng: random.Random) -> list[Got]:
    """Be one of these clients once; return what it got, also nothing."""
    (behave,) = rng.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()))
    noted: list[Got] = []

    def choose_and_note(behaviour: str) -> Got:
        noted.append(choose(behaviour))
        return noted[-1]

    try:
        return behave(url, choose_and_note, rng)
    except OSError as error:  # it could not even ask
        for got in noted:
            got.failure = got.failure or repr(error)
            got.ended_at = got.ended_at or time.monotonic()
        return noted
