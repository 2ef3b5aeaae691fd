"""The client goes while nothing is written to it: the upstream is left at once, long before a heartbeat would tell."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any, Callable, Iterator

import pytest

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import ModelProcess

INTERVAL = 0.05
HEARTBEAT = 15.0
"""The default. Whatever is noticed in a fraction of it was not noticed by writing."""
AT_ONCE = 1.0
"""Seconds; a FIN takes microseconds, a busy machine takes its time."""

Going = Callable[[socket.socket], None]


def fin(client: socket.socket) -> None:
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.fixture(scope="module", params=["gevent", "gthread"])
def server(request: Any, model: ModelProcess) -> Iterator[GunicornProcess]:
    if request.param == "gevent":
        yield request.getfixturevalue("gunicorn")
        return
    arguments = ("--worker-class", "gthread", "--threads", "8")
    config = "apps/gunicorn_plain.py"
    with GunicornProcess({"upstream": model.url}, arguments, config=config, folder=TESTS) as process:
        process.wait_until_it_answers()
        yield process


TESTS = __file__.rpartition("/")[0]


def ask(server: GunicornProcess, model: str, more: bytes = b"") -> socket.socket:
    body = json.dumps({"q": "hello", "model": model}).encode()
    head = f"POST /stream/chat HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    client = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=10)
    client.sendall(head.encode() + b"\r\n" + body + more)
    return client


def read_until(client: socket.socket, mark: bytes) -> bytes:
    seen = b""
    while mark not in seen:
        data = client.recv(65536)
        assert data, f"expected {mark!r}, got the end after {seen!r}"
        seen += data
    return seen


def logged(model: ModelProcess, name: str) -> dict[str, Any]:
    (request,) = [request for request in model.requests() if (request["model"] or "").startswith(name + "?")]
    return request


def left_at(model: ModelProcess, name: str) -> float:
    """Wait until the model has seen the relay go; return when it did, in seconds of the monotonic clock."""
    deadline = time.monotonic() + HEARTBEAT / 2
    while time.monotonic() < deadline:
        request = logged(model, name)
        if request["ended"] is not None:
            assert request["ended"] == "peer_left"
            return float(request["peer_left_at"])
        time.sleep(0.01)
    raise AssertionError(f"the upstream is still open: {request}")


SILENT = {
    "before its head": "slow_headers_ms=60000",
    "before its first token": "silence_after=0",
}
SPEAKING = {
    "silent in mid-answer": "interval_ms=50&silence_after=2",
    "flooding": "tokens=100000&interval_ms=0",
}


@pytest.mark.parametrize("go", [fin, reset])
@pytest.mark.parametrize("script", SILENT.values(), ids=SILENT.keys())
def test_an_upstream_that_has_said_nothing_is_left(
    server: GunicornProcess, model: ModelProcess, go: Going, name: str, script: str
) -> None:
    client = ask(server, f"{name}?{script}")
    wait_until_asked(model, name)
    gone_at = time.monotonic()
    go(client)
    assert left_at(model, name) - gone_at < AT_ONCE


@pytest.mark.parametrize("go", [fin, reset])
@pytest.mark.parametrize("script", SPEAKING.values(), ids=SPEAKING.keys())
def test_an_upstream_that_has_spoken_is_left(
    server: GunicornProcess, model: ModelProcess, go: Going, name: str, script: str
) -> None:
    client = ask(server, f"{name}?{script}")
    read_until(client, b"word")
    gone_at = time.monotonic()
    go(client)
    assert left_at(model, name) - gone_at < AT_ONCE


def test_a_client_that_has_sent_more_is_seen_to_go_all_the_same(
    server: GunicornProcess, model: ModelProcess, name: str
) -> None:
    client = ask(server, f"{name}?interval_ms=50&silence_after=2", more=b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    read_until(client, b"word")
    gone_at = time.monotonic()
    fin(client)
    assert left_at(model, name) - gone_at < AT_ONCE


def test_a_client_that_has_only_shut_down_its_writing_side_gets_the_whole_answer(
    server: GunicornProcess, model: ModelProcess, name: str
) -> None:
    client = ask(server, f"{name}?tokens=12&interval_ms=50")
    client.shutdown(socket.SHUT_WR)
    with client:
        seen = read_until(client, b"event: done")
    assert seen.count(b'{"t":') == 12


def wait_until_asked(model: ModelProcess, name: str) -> None:
    deadline = time.monotonic() + 10
    while not any((request["model"] or "").startswith(name + "?") for request in model.requests()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def name(request: Any) -> str:
    """A name for the model that tells this test's request from the others in its log."""
    return "".join(character for character in request.node.name if character.isalnum())
