"""Under gunicorn with gevent, many streams of one worker: none waits for another, and none mixes with another."""

from __future__ import annotations

import contextlib

import pytest
from flask import Flask
from servers import SERVERS, happened_at, wait_until_happened

from flaskstream.doctor.measure import Request, record
from flaskstream.testing import open_stream


@pytest.fixture(scope="module")
def server():
    with SERVERS["gunicorn-gevent"]() as url:
        yield url


def test_a_generator_that_waits_for_ever_is_interrupted_when_its_client_leaves(server):
    happened_at(server)
    with open_stream(f"{server}/silent") as stream:
        stream.take(1)
    assert wait_until_happened(server, "interrupted") == ["interrupted"]


def test_while_many_streams_are_open_a_short_request_is_answered(server):
    with contextlib.ExitStack() as clients:
        streams = [clients.enter_context(open_stream(f"{server}/endless")) for _ in range(50)]
        with open_stream(f"{server}/happened") as answer:
            assert answer.json().count("began") == 50
        assert all(stream.take(2) for stream in streams)


def test_a_stream_that_computes_takes_turns_with_the_others(server):
    # A tick every 10 ms beside a stream that computes 100 ms for each of its own: it may be late by one of those.
    count, seconds = 8, 0.1
    with open_stream(f"{server}/busy?count={count}&seconds={seconds}") as busy:
        busy.take(1)
        ticks = record(Request(f"{server}/ticks?count=30&interval=0.01", max_seconds=30))
        assert len(list(busy)) == count  # with the end
    times = [timed.at for timed in ticks.events]
    assert max(later - sooner for sooner, later in zip(times, times[1:])) < seconds * (count - 2)


def test_streams_at_the_same_time_do_not_mix(server):
    names = ["ada", "bob", "cyd", "dee"]
    with contextlib.ExitStack() as clients:
        streams = [clients.enter_context(open_stream(f"{server}/names/{name}")) for name in names]
        for name, stream in zip(names, streams):
            *items, done = stream
            assert [timed.event.json() for timed in items] == [[name] * 4] * 10
            assert done.event.event == "done"


def test_an_async_view_streams_too(server):
    pytest.importorskip("asgiref", reason="Flask has async views with asgiref")
    if not hasattr(Flask, "ensure_sync"):
        pytest.skip("this Flask has no async views")
    with open_stream(f"{server}/async/xyz") as stream:
        assert [timed.event.data for timed in stream.take(3)] == ["x", "y", "z"]
