"""`max_duration` holds against a client that does not read: its connection is shut down, and all it held is free."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections import Counter
from typing import Any, Iterator

import pytest
from answer_vectors import DONE, said
from raw_client import Connection, request
from raw_upstream import PATIENCE, RawUpstream, answer, chunk, head, wait_for
from relay_client import CHAT, COMPLETIONS, chat

from flaskstream.doctor.measure import Request, record
from flaskstream.lab.gunicorn import GunicornProcess

TESTS = os.path.dirname(os.path.abspath(__file__))
LONGEST = 1.0
PATHS = (CHAT, COMPLETIONS)
FLOOD = [chunk(said("x" * 65536))] * 1000


@pytest.fixture(scope="module", params=["gevent", "gthread"])
def server(request: Any, raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    threads = ("--worker-class", "gthread", "--threads", "8")
    arguments, more = ((), {}) if request.param == "gevent" else (threads, {"config": "apps/gunicorn_plain.py"})
    settings = {"upstream": raw_upstream.url, "max_duration": str(LONGEST), "max_streams": str(len(PATHS))}
    with GunicornProcess(settings, arguments, folder=TESTS, **more) as process:
        process.wait_until_it_answers()
        yield process


def ended(server: GunicornProcess) -> Counter[str]:
    return Counter(json.loads(record(Request(server.url + "/stream/stats")).body)["ended"])


def ask(server: GunicornProcess, path: str, model: str) -> Connection:
    body = json.dumps({"q": "hello", "messages": [{}], "stream": True, "model": model}).encode()
    connection = Connection(server.url, receive_bytes=4096)
    connection.send(request("POST", path, body, ("Content-Type: application/json",)))
    return connection


def take_a_little(client: socket.socket) -> bool:
    with contextlib.suppress(ConnectionResetError):
        client.recv(500)
    return True


def test_who_reads_nothing_or_slowly_keeps_neither_place_nor_upstream(
    server: GunicornProcess, raw_upstream: RawUpstream
) -> None:
    short = raw_upstream.plays(answer("chunked", said("a"), DONE))
    model = raw_upstream.plays(head("chunked"), *FLOOD, chunk(DONE), end="hold")
    before = ended(server)
    with contextlib.ExitStack() as stack:
        nothing, slowly = (stack.enter_context(contextlib.closing(ask(server, path, model).socket)) for path in PATHS)
        wait_for(lambda: len(raw_upstream.asked_for(model)) == len(PATHS))
        assert chat(server, short).status == 503
        wait_for(lambda: take_a_little(slowly) and chat(server, short).status == 200)
        wait_for(lambda: all(asked.left_at is not None for asked in raw_upstream.asked_for(model)))
        nothing.settimeout(PATIENCE)
        with pytest.raises(ConnectionResetError):  # what it gets later does not look whole
            while nothing.recv(65536):
                pass
    assert ended(server)["max_duration"] - before["max_duration"] == len(PATHS)
    assert ended(server)["client_gone"] == before["client_gone"]


def test_who_reads_gets_the_end_in_words(server: GunicornProcess, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(head("chunked"), chunk(said("a")), end="hold")
    seen = chat(server, model)
    assert seen.events[-1].event.json()["code"] == "max_duration"
    assert seen.framing_complete
