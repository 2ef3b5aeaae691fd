"""A body from its socket, in the two ways in which it is read: by who waits, and by the loop, which only looks."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
from types import SimpleNamespace
from typing import Iterator

import pytest

from flaskstream.upstream.socket_reader import SocketReader

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


CONTENTS = (b"hello", b"a longer word", chunk(b"hello"), chunk(b"one") + chunk(b"two"), b"\r\n", b"5\r\n", LAST)
"""Some of which look like chunks, like their ends, or like the end of the body."""


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, SocketReader]]:
    """The upstream's end of a connection, and who reads the body at the other one."""
    theirs, ours = socket.socketpair()
    theirs.sendall(HEAD)
    response = http.client.HTTPResponse(ours)
    response.begin()
    ours.setblocking(False)  # who would have to wait says so
    raw = SimpleNamespace(_fp=response, _connection=None, release_conn=lambda: None)
    with theirs, ours:
        reader = SocketReader(raw, ours)
        yield theirs, reader
        reader.close()
        response.close()


def pieces(body: bytes, chance: random.Random) -> Iterator[bytes]:
    """Cut what goes out, sometimes where a chunk ends."""
    while body:
        end = body.find(b"\r\n", 4) + 2 if chance.random() < 0.6 else chance.randint(1, 9)
        yield body[: max(1, end)]
        body = body[max(1, end) :]


@pytest.mark.parametrize("seed", range(200))
def test_chunks_are_read_by_either_way_wherever_they_are_cut(
    ends: tuple[socket.socket, SocketReader], seed: int
) -> None:
    theirs, reader = ends
    chance = random.Random(seed)
    contents = [chance.choice(CONTENTS) for _ in range(20)]
    got = []
    for piece in pieces(b"".join(map(chunk, contents)), chance):
        theirs.sendall(piece)
        content = reader.read_now() if chance.random() < 0.7 else None
        if content is None:
            with contextlib.suppress(BlockingIOError):  # there is less than a byte of content in it
                content = reader.read()
        got.append(content or b"")
    theirs.sendall(LAST)
    assert reader.read_now() is None and reader.read() == b""
    assert b"".join(got) == b"".join(contents)
