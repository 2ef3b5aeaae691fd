"""An answer that does not stream keeps the limits of those that do, and is asked for nobody."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections import Counter
from typing import Any, Callable, Iterator

import pytest
from leaving import fin, reset
from raw_client import Connection, request
from raw_upstream import RawUpstream, answer, head, wait_for
from relay_client import COMPLETIONS, chat, complete

from flaskstream.doctor.measure import Recording, Request, record
from flaskstream.lab.gunicorn import GunicornProcess

WHOLE = b'{"choices": [{"message": {"content": "a"}}]}'
OK = answer("length", WHOLE, content_type="application/json")
AGAIN_SECONDS = 1
BUSY = answer("length", b"{}", status=503, headers=(f"Retry-After: {AGAIN_SECONDS}",), content_type="application/json")
MOST = 2
LONGEST = 2.0
GRACE = 4


def gunicorn(worker: str, upstream: RawUpstream, **settings: str) -> GunicornProcess:
    threads = () if worker == "gevent" else ("--worker-class", "gthread", "--threads", "8")
    server = GunicornProcess({"upstream": upstream.url, **settings}, ("--graceful-timeout", str(GRACE), *threads))
    server.wait_until_it_answers()
    return server


@pytest.fixture(scope="module", params=["gevent", "gthread"])
def server(request: Any, raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    with gunicorn(request.param, raw_upstream, max_streams=str(MOST), max_duration=str(LONGEST)) as process:
        yield process


def silent(upstream: RawUpstream, *begun: bytes) -> str:
    return upstream.plays(*begun, end="hold")


BEGUN = {"before its head": (), "in its body": (head("length", length=99, content_type="application/json"), WHOLE)}


@contextlib.contextmanager
def asked(server: GunicornProcess, upstream: RawUpstream, model: str) -> Iterator[socket.socket]:
    """A client whose answer has been asked for."""
    before = len(upstream.asked_for(model))
    body = json.dumps({"messages": [], "model": model}).encode()
    with Connection(server.url) as connection:
        connection.send(request("POST", COMPLETIONS, body, ("Content-Type: application/json",)))
        wait_for(lambda: len(upstream.asked_for(model)) == before + 1)
        yield connection.socket


def stats(server: GunicornProcess) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(record(Request(server.url + "/stream/stats")).body)
    return {**told, "ended": Counter(told["ended"])}  # an end that nothing had is not told


def whole(server: GunicornProcess, model: str) -> Recording:
    return complete(server, model, stream=False)


def code(recording: Recording) -> str:
    told: str = json.loads(recording.body)["error"]["code"]
    return told


def test_it_stands_in_the_figures_as_a_stream_of_one_event(server: GunicornProcess, raw_upstream: RawUpstream) -> None:
    before = stats(server)
    assert whole(server, raw_upstream.plays(OK)).body == WHOLE
    after = stats(server)
    assert after["ended"]["done"] == before["ended"]["done"] + 1
    assert (after["events"], after["bytes"]) == (before["events"] + 1, before["bytes"] + len(WHOLE))
    assert (after["tokens"], after["first_token_ms"]["count"]) == (before["tokens"], before["first_token_ms"]["count"])


def test_it_takes_a_place_and_gives_it_back(server: GunicornProcess, raw_upstream: RawUpstream) -> None:
    model = silent(raw_upstream)
    with contextlib.ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(asked(server, raw_upstream, model))
        for ask in (whole, chat):
            refused = ask(server, raw_upstream.plays(OK))
            assert refused.status == 503 and b"too_many_streams" in refused.body
            assert refused.header("Retry-After")
    wait_for(lambda: whole(server, raw_upstream.plays(OK)).status == 200)


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
def test_it_is_late_as_a_stream_is(server: GunicornProcess, raw_upstream: RawUpstream, begun: Any) -> None:
    model = silent(raw_upstream, *begun)
    late = whole(server, model)
    assert (late.status, code(late)) == (504, "max_duration")
    assert LONGEST * 0.8 < late.ended_at - late.sent_at < LONGEST * 3
    assert raw_upstream.wait_until_over(model).left_at is not None


@pytest.mark.parametrize("go", [fin, reset])
@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
def test_its_upstream_is_left_when_its_client_goes(
    server: GunicornProcess, raw_upstream: RawUpstream, go: Callable[[socket.socket], None], begun: Any
) -> None:
    before = stats(server)["ended"]
    model = silent(raw_upstream, *begun)
    with asked(server, raw_upstream, model) as client:
        go(client)
        assert raw_upstream.wait_until_over(model).left_at is not None
    wait_for(lambda: stats(server)["ended"]["client_gone"] == before["client_gone"] + 1)
    assert stats(server)["ended"]["max_duration"] == before["max_duration"]


@pytest.mark.parametrize("go", [fin, reset])
def test_nothing_is_asked_again_for_a_client_that_has_gone(
    server: GunicornProcess, raw_upstream: RawUpstream, go: Callable[[socket.socket], None]
) -> None:
    left, *controls = (raw_upstream.plays_in_turn(raw_upstream.plays(BUSY), raw_upstream.plays(OK)) for _ in range(3))
    with asked(server, raw_upstream, left) as client:
        go(client)
        for control in controls:  # which wait for longer than that, after it
            assert whole(server, control).status == 200
    assert [len(raw_upstream.asked_for(model)) for model in (left, *controls)] == [1, 2, 2]


@pytest.mark.parametrize("worker", ["gevent", "gthread"])
def test_a_worker_that_stops_says_so(raw_upstream: RawUpstream, worker: str) -> None:
    model = silent(raw_upstream)
    seen: list[Recording] = []
    with gunicorn(worker, raw_upstream) as server:
        client = threading.Thread(target=lambda: seen.append(whole(server, model)))
        client.start()
        wait_for(lambda: len(raw_upstream.asked_for(model)) == 1)
        os.kill(server.pid, signal.SIGTERM)
        client.join(5 * GRACE)
        server.wait_until_it_ends(GRACE)
    assert [(stopped.status, code(stopped)) for stopped in seen] == [(503, "shutting_down")]
    assert raw_upstream.wait_until_over(model).left_at is not None
