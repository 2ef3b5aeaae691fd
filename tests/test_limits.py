"""Limits: streams in a worker, the age of a stream, and what a client that does not read may cost."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Iterator

import pytest
from raw_upstream import RawUpstream, chunk, head
from relay_client import CHAT, COMPLETIONS, chat, end, post

from flaskstream.doctor.measure import Request, open_exchange
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import ModelProcess

MOST = 4
LONGEST = 1.0
ENDLESS = {"q": "hello", "model": "tick?tokens=1000&interval_ms=50"}


@pytest.fixture(scope="module")
def limited(model: ModelProcess) -> Iterator[GunicornProcess]:
    settings = {"upstream": model.url, "max_streams": str(MOST), "max_duration": str(LONGEST)}
    with GunicornProcess(settings) as server:
        server.wait_until_it_answers()
        yield server


def test_one_stream_too_many_is_refused_and_every_place_comes_back(
    limited: GunicornProcess, model: ModelProcess
) -> None:
    model.forget()
    for _ in range(3):
        with ExitStack() as stack:
            for _ in range(MOST):
                exchange = stack.enter_context(open_exchange(post(limited, CHAT, ENDLESS)))
                next(exchange.events())
            refused = chat(limited, "tick?tokens=2")
            assert refused.status == 503
            assert 1 <= int(refused.header("Retry-After") or 0) <= 5
            assert b"too_many_streams" in refused.body
            other = stack.enter_context(open_exchange(Request(limited.url + "/")))
            assert other.status == 200  # what is no stream is answered all the same
        wait_for_a_place(limited)
    assert end(chat(limited, "tick?tokens=2")).event == "done"
    asked = [request for request in model.requests() if "tokens=1000" in (request["model"] or "")]
    assert len(asked) == 3 * MOST


def wait_for_a_place(server: GunicornProcess) -> None:
    deadline = time.monotonic() + 10
    while chat(server, "tick?tokens=1&interval_ms=5").status == 503:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_refused_streams_cost_no_place(limited: GunicornProcess) -> None:
    for _ in range(2 * MOST):
        assert chat(limited, "tick?status=429&retry_after=60").status == 429
    assert end(chat(limited, "tick?tokens=2")).event == "done"


def test_a_stream_that_is_too_old_ends_with_an_error_and_leaves_the_upstream(
    limited: GunicornProcess, model: ModelProcess
) -> None:
    model.forget()
    seen = chat(limited, "tick?tokens=1000&interval_ms=50")
    assert end(seen).json()["code"] == "max_duration"
    assert LONGEST * 0.8 < seen.ended_at - seen.sent_at < LONGEST * 4
    deadline = time.monotonic() + 10
    while [request["ended"] for request in model.requests()] != ["peer_left"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_silent_stream_ages_too(limited: GunicornProcess) -> None:
    seen = chat(limited, "tick?interval_ms=50&silence_after=2")
    assert end(seen).json()["code"] == "max_duration"
    assert LONGEST * 0.8 < seen.ended_at - seen.sent_at < LONGEST * 4


def rss_of_worker(master: int) -> int:
    """Return the resident memory of the one worker of a gunicorn, in bytes."""
    with open(f"/proc/{master}/task/{master}/children") as children:
        (worker,) = children.read().split()
    with open(f"/proc/{worker}/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_a_client_that_never_reads_costs_little_and_slows_nobody(gunicorn: GunicornProcess) -> None:
    before = rss_of_worker(gunicorn.pid)
    flood = {"q": "hello", "model": "tick?tokens=50000&interval_ms=0"}
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(open_exchange(post(gunicorn, CHAT, flood)))
        seen = chat(gunicorn, "tick?tokens=20&interval_ms=50")
        assert end(seen).event == "done"
        arrivals = [timed.at for timed in seen.events[:-1]]
        assert max(later - earlier for earlier, later in zip(arrivals, arrivals[1:])) < 0.5
        assert rss_of_worker(gunicorn.pid) - before < 20_000_000


def test_an_upstream_that_floods_without_saying_anything_slows_nobody_and_is_bounded(
    raw_gunicorn: GunicornProcess, raw_upstream: RawUpstream
) -> None:
    flood = raw_upstream.plays(head("chunked"), *[chunk(b": nothing\n" * 6000)] * 400, end="fin")
    with open_exchange(post(raw_gunicorn, COMPLETIONS, {**ENDLESS, "model": flood, "stream": True})) as exchange:
        began = time.monotonic()
        while exchange.ended is None and time.monotonic() - began < 20:
            asked_at = time.monotonic()
            with open_exchange(Request(raw_gunicorn.url + "/")) as other:
                assert other.status == 200
            assert time.monotonic() - asked_at < 2
            if not raw_upstream.asked_for(flood) or raw_upstream.asked_for(flood)[-1].over:
                break
        assert b"event_too_large" in b"".join(piece.data for piece in exchange.chunks())
