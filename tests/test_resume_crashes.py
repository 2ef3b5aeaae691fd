"""Processes that produce answers are killed, or stopped: nobody waits for ever, and nothing recorded is lost."""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import closing

import pytest
from recorded import (
    LEASE,
    after,
    ask,
    begin,
    calls,
    follow,
    names,
    numbers,
    recorded_server,
    said_text,
    script,
    store_url,
    wait_until,
)
from redis_server import RedisServer
from relay_client import events
from returning import Returning

from flaskstream.resume.live import PATIENCE

STORES = ("sqlite", "redis")
NOISE = 10 * LEASE  # of a machine that is busy with others
FEW = 5


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return store_url(request, request.param, tmp_path)


@pytest.fixture
def said():
    """An answer that does not end while a test lasts."""
    return script(f"crash-{secrets.token_hex(4)}", tokens=2000, interval_ms=40)


def is_beginning(text, said):
    return bool(text) and said.text.startswith(text)


def test_a_killed_producer_is_told_within_a_lease_after_all_that_was_recorded(model, store, said):
    with recorded_server(model.url, store, workers=2) as server:
        here = Returning(server, said).wait_for(FEW)
        producer = here.workers[0]
        elsewhere = Returning(server, stream_id=here.stream_id, avoid=producer).wait_for(FEW)
        os.kill(producer, signal.SIGKILL)
        killed_at = time.monotonic()
        for client in (here.wait(), elsewhere.wait()):
            assert client.end[0] == "error" and client.end[1]["code"] == "producer_lost"
            assert client.heard_at[-1] - killed_at < LEASE + LEASE / 4 + NOISE
            assert client.numbers == list(range(1, len(client.events) + 1))
            assert is_beginning(client.text, said)
        assert here.proper[0] is False and here.workers[-1] != producer
        assert elsewhere.proper == [True]
        assert here.text == elsewhere.text  # all that anybody has seen is in the store
        assert len(calls(model, said)) == 1

        whole = follow(server, here.stream_id)
        assert said_text(whole) == here.text and names(whole) == ["message", "error"]
        state = ask(server, "HEAD", here.stream_id)
        assert state.header("X-Stream-State") == "failed"
        assert state.header("X-Stream-Events") == str(len(here.events))
        assert follow(server, here.stream_id, after(whole)).status == 204


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_killed_producer_is_told_of_by_head_though_nobody_reads(model, store, said):
    with recorded_server(model.url, store, workers=2) as server:
        client = begin(server, said, stop_after=FEW)
        os.kill(int(client.header("X-Worker")), signal.SIGKILL)
        name = client.header("X-Stream-Id")
        wait_until(lambda: ask(server, "HEAD", name).header("X-Stream-State") == "failed")
        rest = follow(server, name, after(client))
        assert events(rest)[-1].json()["code"] == "producer_lost"
        assert numbers(rest)[0] == FEW + 1
        assert is_beginning(said_text(client, rest), said)


def test_what_is_in_a_file_outlives_the_whole_server(model, tmp_path, said):
    store = f"sqlite:{tmp_path}/streams.db"
    short = script(f"whole-{secrets.token_hex(4)}")
    with recorded_server(model.url, store, workers=2) as server:
        whole = begin(server, short)
        running = begin(server, said, stop_after=FEW)
        server.kill()
    with recorded_server(model.url, store, workers=2) as server:
        again = follow(server, whole.header("X-Stream-Id"))
        assert said_text(again) == short.text and numbers(again) == numbers(whole)
        rest = follow(server, running.header("X-Stream-Id"), after(running))
        assert names(rest)[-1] == "error" and events(rest)[-1].json()["code"] == "producer_lost"
        assert numbers(running) + numbers(rest) == list(range(1, numbers(rest)[-1] + 1))
        assert is_beginning(said_text(running, rest), said)
    assert len(calls(model, short)) == len(calls(model, said)) == 1


@pytest.mark.parametrize("store, worker", [("sqlite", "gevent"), ("redis", "gthread")], indirect=["store"])
def test_a_producer_that_wakes_up_too_late_leaves_its_upstream_and_adds_nothing(model, store, worker):
    # It falls asleep while its upstream is silent: in the middle of a write it would hold the lock of the file, too.
    silence = int(1000 * 4 * LEASE)
    said = script(f"late-{secrets.token_hex(4)}", tokens=2000, interval_ms=40, silence_after=FEW, silence_ms=silence)
    with recorded_server(model.url, store, workers=2, worker=worker) as server:
        here = Returning(server, said).wait_for(FEW)
        producer = here.workers[0]
        elsewhere = Returning(server, stream_id=here.stream_id, avoid=producer).wait_for(FEW)
        os.kill(producer, signal.SIGSTOP)
        try:
            assert elsewhere.wait().end[1]["code"] == "producer_lost"
            assert calls(model, said)[0]["ended"] is None
        finally:
            os.kill(producer, signal.SIGCONT)
        wait_until(lambda: calls(model, said)[0]["ended"] == "peer_left")
        assert here.wait().end[1]["code"] == "producer_lost"
        # From the worker that has been asleep, and from the other one: the same, and no more.
        again = Returning(server, stream_id=here.stream_id).wait()
        assert [event.id for event in again.events] == [event.id for event in elsewhere.events]
        assert again.text == elsewhere.text


def test_a_producer_that_wakes_up_in_time_goes_on(model):
    """The time that it has slept is not counted as the store's, which had not taken all when it fell asleep."""
    said = script(f"nap-{secrets.token_hex(4)}", tokens=40, interval_ms=40)
    with closing(RedisServer()) as redis, recorded_server(model.url, redis.url, workers=2, lease=10 * LEASE) as server:
        here = Returning(server, said).wait_for(FEW)
        elsewhere = Returning(server, stream_id=here.stream_id, avoid=here.workers[0]).wait_for(FEW)
        redis.pause()
        time.sleep(5 * said.interval_ms / 1000)
        os.kill(here.workers[0], signal.SIGSTOP)
        redis.go_on()
        time.sleep(2 * PATIENCE)
        os.kill(here.workers[0], signal.SIGCONT)
        for client in (here.wait(), elsewhere.wait()):
            assert client.names == ["done"] and client.text == said.text
            assert client.numbers == list(range(1, said.tokens + 2))
