"""The client goes while nothing is written to it: the upstream is left at once, long before a heartbeat would tell."""

from __future__ import annotations

import socket
import time
from typing import Any, Callable, Iterator

import pytest
from leaving import fin, half_close, in_two_steps, left_at, read_until, reset, wait_until_asked
from listeners import UWSGI, Listener, listening

from flaskstream.lab.processes import ModelProcess

AT_ONCE = 1.0
"""Seconds; a FIN takes microseconds, a busy machine takes its time. The heartbeat, by which it would be noticed by
writing, has its default of 15."""

Going = Callable[[socket.socket], None]


@pytest.fixture(scope="module", params=["gevent", "gevent-tls", "gthread", "gthread-tls", *UWSGI])
def server(request: Any, model: ModelProcess) -> Iterator[Listener]:
    worker, _, tls = request.param.partition("-")
    with listening(worker, model.url, request.getfixturevalue("certificate") if tls else "") as listener:
        yield listener


SILENT = {
    "before its head": "slow_headers_ms=60000",
    "before its first token": "silence_after=0",
}
SPEAKING = {
    "silent in mid-answer": "interval_ms=50&silence_after=2",
    "flooding": "tokens=100000&interval_ms=0",
}


@pytest.mark.parametrize("go", [fin, reset, in_two_steps])
@pytest.mark.parametrize("script", SILENT.values(), ids=SILENT.keys())
def test_an_upstream_that_has_said_nothing_is_left(
    server: Listener, model: ModelProcess, go: Going, name: str, script: str
) -> None:
    client = server.ask(f"{name}?{script}")
    wait_until_asked(model, name)
    gone_at = time.monotonic()
    go(client)
    assert left_at(model, name) - gone_at < AT_ONCE


@pytest.mark.parametrize("go", [fin, reset])
@pytest.mark.parametrize("script", SPEAKING.values(), ids=SPEAKING.keys())
def test_an_upstream_that_has_spoken_is_left(
    server: Listener, model: ModelProcess, go: Going, name: str, script: str
) -> None:
    client = server.ask(f"{name}?{script}")
    read_until(client, b"word")
    gone_at = time.monotonic()
    go(client)
    assert left_at(model, name) - gone_at < AT_ONCE


@pytest.mark.parametrize("go", [fin, reset])
def test_a_client_that_has_sent_more_is_seen_to_go_all_the_same(
    server: Listener, model: ModelProcess, go: Going, name: str
) -> None:
    client = server.ask(f"{name}?interval_ms=50&silence_after=2", more=b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    read_until(client, b"word")
    gone_at = time.monotonic()
    go(client)
    assert left_at(model, name) - gone_at < AT_ONCE


def test_a_client_that_has_sent_more_and_stays_gets_the_whole_answer(server: Listener, name: str) -> None:
    with server.ask(f"{name}?tokens=12&interval_ms=50", more=b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert read_until(client, b"event: done").count(b'{"t":') == 12


def test_a_client_that_has_only_shut_down_its_writing_side_gets_the_whole_answer(server: Listener, name: str) -> None:
    with server.ask(f"{name}?tokens=12&interval_ms=50") as client:
        half_close(client)
        assert read_until(client, b"event: done").count(b'{"t":') == 12


@pytest.fixture
def name(request: Any) -> str:
    """A name for the model that tells this test's request from the others in its log."""
    return "".join(character for character in request.node.name if character.isalnum())
