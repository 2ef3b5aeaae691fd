"""Workers are told to stop: readers go on elsewhere at once, and the old one produces the answer to its end."""

from __future__ import annotations

import os
import secrets
import signal
import time

import pytest
from recorded import begin, calls, follow, recorded_server, said_text, script, wait_until
from returning import Returning

from flaskstream.serving.deploy import DRAIN_SHARE

FEW = 5
GRACE = 8
"""Seconds that a worker gets: a quarter of it, in which a stream without a store may finish, is far above noise."""
WORKERS = ("gevent", "gthread")


@pytest.fixture(params=WORKERS)
def worker(request):
    return request.param


@pytest.fixture
def store(tmp_path):
    return f"sqlite:{tmp_path}/streams.db"


@pytest.fixture
def said():
    """An answer that goes on for some seconds after its worker was told."""
    return script(f"deploy-{secrets.token_hex(4)}", tokens=60, interval_ms=60)


def deployed(model, store, worker, workers=2, grace=GRACE, *arguments):
    return recorded_server(
        model.url, store, worker=worker, workers=workers, arguments=("--graceful-timeout", str(grace), *arguments)
    )


def check_exact(client, model, said):
    """It was sent elsewhere, and its user has seen nothing of it."""
    assert client.names[0] == "restart" and set(client.names) == {"restart", "done"}
    restart = next(event for event in client.events if event.event == "restart")
    assert restart.retry and restart.retry > 0
    assert all(client.proper)
    assert client.text == said.text
    assert [number for number in client.numbers if number] == list(range(1, said.tokens + 2))
    assert [call["ended"] for call in calls(model, said)] == ["complete"]


def test_sigterm_to_one_worker_sends_readers_to_another_at_once(model, store, worker, said):
    with deployed(model, store, worker) as server:
        client = Returning(server, said).wait_for(FEW)
        old = client.workers[0]
        os.kill(old, signal.SIGTERM)
        told_at = time.monotonic()
        check_exact(client.wait(), model, said)
        restarted_at = client.heard_at[[event.event for event in client.events].index("restart")]
        assert restarted_at - told_at < GRACE * DRAIN_SHARE  # when a stream without a store has to end
        assert client.workers[-1] != old
        wait_until(lambda: not is_there(old))


def test_a_reload_of_all_workers_costs_nobody_a_token(model, store, worker, said):
    with deployed(model, store, worker) as server:
        clients = [Returning(server, said).wait_for(FEW)]
        clients += [Returning(server, stream_id=clients[0].stream_id).wait_for(FEW) for _ in range(3)]
        old = {number for client in clients for number in client.workers}
        os.kill(server.pid, signal.SIGHUP)
        for client in clients:
            check_exact(client.wait(), model, said)
            assert client.workers[-1] not in old


@pytest.mark.parametrize("worker", ["gevent"], indirect=True)
def test_a_worker_that_is_replaced_after_so_many_requests_does_the_same(model, store, worker, said):
    with deployed(model, store, worker, 2, GRACE, "--max-requests", "6") as server:
        client = Returning(server, said).wait_for(FEW)
        while "restart" not in client.names:
            server.wait_until_it_answers()
        check_exact(client.wait(), model, said)
        assert client.workers[-1] != client.workers[0]


def test_sigterm_to_the_master_lets_the_answer_be_produced_and_recorded(model, store, worker, said):
    with deployed(model, store, worker) as server:
        first = begin(server, said, stop_after=FEW)
        server.terminate()
        server.wait_until_it_ends(GRACE)
    with deployed(model, store, worker) as server:
        whole = follow(server, first.header("X-Stream-Id"))
        assert said_text(whole) == said.text
        assert [call["ended"] for call in calls(model, said)] == ["complete"]


@pytest.mark.parametrize("worker", ["gevent"], indirect=True)
def test_a_master_with_nothing_to_produce_ends_promptly(model, store, worker):
    with deployed(model, store, worker, 2, 10 * GRACE) as server:
        begin(server, script("short", tokens=3))
        server.terminate()
        server.wait_until_it_ends(GRACE)


@pytest.mark.parametrize(
    "number, worker", [(signal.SIGINT, "gevent"), (signal.SIGQUIT, "gthread")], indirect=["worker"]
)
def test_a_quick_end_waits_for_no_answer_and_says_so_in_the_store(model, store, worker, number):
    endless = script(f"endless-{secrets.token_hex(4)}", tokens=2000)
    with deployed(model, store, worker, 1, 10 * GRACE) as server:
        first = begin(server, endless, stop_after=FEW)
        os.kill(server.pid, number)
        server.wait_until_it_ends(GRACE)
    with deployed(model, store, worker, 1) as server:
        client = Returning(server, stream_id=first.header("X-Stream-Id")).wait()
        assert client.end[0] == "error" and client.end[1]["code"] == "shutting_down"


def test_an_answer_that_takes_longer_than_the_worker_ends_with_a_recorded_error(model, store, worker):
    endless = script(f"endless-{secrets.token_hex(4)}", tokens=2000)
    with deployed(model, store, worker, 2, GRACE // 2) as server:
        client = Returning(server, endless).wait_for(FEW)
        os.kill(client.workers[0], signal.SIGTERM)
        assert client.wait().end[0] == "error" and client.end[1]["code"] == "shutting_down"
        assert set(client.names) == {"restart", "error"}
        assert client.numbers == list(range(1, client.numbers[-1] + 1))
        assert endless.text.startswith(client.text)
        wait_until(lambda: calls(model, endless)[0]["ended"] == "peer_left")
        again = Returning(server, stream_id=client.stream_id).wait()
        assert (again.text, again.end) == (client.text, client.end)


@pytest.mark.parametrize("worker", ["gevent"], indirect=True)
def test_an_answer_whose_first_token_is_awaited_is_found_elsewhere(model, store, worker):
    """Neither a 503 nor a second question: the browser has no id of an event yet, so the restart brings one."""
    late = script(f"late-{secrets.token_hex(4)}", tokens=5, silence_after=0, silence_ms=2500)
    with deployed(model, store, worker) as server:
        client = Returning(server, late, is_browser=True)
        wait_until(lambda: calls(model, late))
        os.kill(server.pid, signal.SIGHUP)
        check_exact(client.wait(), model, late)
        assert client.statuses == []


def test_what_is_in_memory_cannot_be_read_elsewhere_so_its_readers_stay(model, said):
    with deployed(model, "memory:", "gevent", 1, 2 * GRACE) as server:
        client = Returning(server, said).wait_for(FEW)
        endless = Returning(server, script(f"endless-{secrets.token_hex(4)}", tokens=2000)).wait_for(FEW)
        server.terminate()
        assert client.wait().names == ["done"] and client.text == said.text
        assert endless.wait().end[1]["code"] == "shutting_down" and endless.names == ["error"]
        server.wait_until_it_ends(GRACE)  # nobody could read what it would still produce


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
