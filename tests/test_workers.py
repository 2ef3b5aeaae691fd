"""What the worker class decides: how many streams at a time, and whether a long one lives."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from raw_client import Connection, request
from relay_client import chat, end

from flaskstream.doctor.measure import Request, record
from flaskstream.lab.bench import Bench
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.plan import Plan

STREAM = "tick?tokens=20&interval_ms=100"
LONGER_THAN_THE_TIMEOUT = "tick?tokens=14&interval_ms=250"


@pytest.fixture(scope="module")
def sync(model):
    """The route of the broken mode without a fault of its own, under the sync worker."""
    with GunicornProcess({"upstream": model.url, "faults": "sync_worker"}) as server:
        server.wait_until_it_answers()
        yield server


@contextlib.contextmanager
def open_streams(server, count):
    body = json.dumps({"q": "hello", "model": STREAM}).encode()
    message = request("POST", "/stream/chat", body, ("Content-Type: application/json",))
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(Connection(server.url)) for _ in range(count)]
        for stream in streams:
            stream.send(message)
        yield streams


def ask_something_else(server):
    answer = record(Request(server.url + "/", timeout=30))
    assert answer.status == 200
    return time.monotonic()


def test_a_hundred_open_streams_keep_nobody_waiting(gunicorn):
    with open_streams(gunicorn, 100) as streams:
        for stream in streams:
            stream.read_until(b'{"t":')
        answered_at = ask_something_else(gunicorn)
        for stream in streams:
            stream.read_until(b"event: done")
            assert stream.reads[-1][0] > answered_at


def test_one_open_stream_under_a_sync_worker_keeps_everybody_waiting(sync):
    with open_streams(sync, 1) as (stream,):
        stream.read_until(b'{"t":')
        answered_at = ask_something_else(sync)
        stream.read_until(b"event: done")
        assert stream.reads[-1][0] - stream.sent_at > 1.5
        assert answered_at - stream.sent_at > 1.5


def test_a_gevent_worker_gives_its_sign_of_life_beside_a_stream_longer_than_the_timeout(model):
    with GunicornProcess({"upstream": model.url}, arguments=("--timeout", "2")) as server:
        answer = chat(server, LONGER_THAN_THE_TIMEOUT)
        assert end(answer).event == "done" and len(answer.events) == 15
        server.kill()


# How much a comparison does at a time.


@pytest.mark.parametrize(
    ("plan", "servers"),
    [(Plan(), 4), (Plan(clients=10), 2), (Plan(clients=64), 1), (Plan(interval_ms=5), 1), (Plan(interval_ms=500), 4)],
)
def test_the_more_tokens_a_second_the_fewer_servers_run_side_by_side(plan, servers):
    assert Bench(plan, None, print)._servers_at_once() == servers
