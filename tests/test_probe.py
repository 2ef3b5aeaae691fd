"""The probe under real servers: its ticks come when they say, and it can be asked afterwards what became of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import statistics
import time
from typing import Any, Iterator

import pytest
from raw_client import Connection, request
from servers import TESTS

from flaskstream.doctor.measure import Recording, Request, open_exchange, record
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.machine import clock_id
from flaskstream.probe.plan import ProbePlan
from flaskstream.probe.ticks import Tick
from flaskstream.testing import open_stream

PATH = "/stream/probe"
PATIENCE = 10  # seconds that no test needs, unless it fails

OURS = {"config": "python:flaskstream.gunicorn_conf"}
GTHREAD = {"config": "apps/gunicorn_gthread.py", "folder": TESTS}
PLAIN = {"config": "apps/gunicorn_plain.py", "folder": TESTS}


@contextlib.contextmanager
def started(*arguments: str, **more: Any) -> Iterator[GunicornProcess]:
    nobody = {"UPSTREAM": "http://127.0.0.1:9/v1"}  # it keeps the embedded model away
    with GunicornProcess(nobody, arguments, **more) as process:
        process.wait_until_it_answers()
        yield process


@pytest.fixture(scope="module")
def gevent() -> Iterator[GunicornProcess]:
    with started("--workers", "2", **OURS) as process:
        yield process


@pytest.fixture(scope="module")
def gthread() -> Iterator[GunicornProcess]:
    with started(**GTHREAD) as process:
        yield process


@pytest.fixture(scope="module")
def sync() -> Iterator[GunicornProcess]:
    with started("-k", "sync", **PLAIN) as process:
        yield process


WORKERS = {"gevent": "gevent", "gthread": "threads", "sync": "sync"}


@pytest.fixture(params=WORKERS)
def server(request: pytest.FixtureRequest) -> GunicornProcess:
    return request.getfixturevalue(request.param)


@pytest.fixture(params=[name for name in WORKERS if name != "sync"])
def concurrent(request: pytest.FixtureRequest) -> GunicornProcess:
    """A server that can be asked while a probe runs."""
    return request.getfixturevalue(request.param)


def url_of(server: GunicornProcess, plan: ProbePlan) -> str:
    return f"{server.url}{PATH}?{plan.query()}"


def probe(server: GunicornProcess, plan: ProbePlan) -> Recording:
    return record(Request(url_of(server, plan)))


def ticks_of(recording: Recording) -> list[Tick]:
    ticks = [Tick.parse(timed.event.data) for timed in recording.events if timed.event.event == "message"]
    assert None not in ticks
    return ticks


def delays_of(recording: Recording) -> list[float]:
    """How long each tick was on its way, in milliseconds. The app reads the clock of this machine."""
    ticks = ticks_of(recording)
    reached_at = ticks[0].told["clock"]
    return [(timed.at - reached_at) * 1000 - tick.sent_ms for timed, tick in zip(recording.events, ticks)]


def ask(server: GunicornProcess, probe_id: str) -> dict[str, Any]:
    with open_stream(f"{server.url}{PATH}?ask={probe_id}") as answer:
        return answer.json()


def ask_until(server: GunicornProcess, probe_id: str, state: str) -> dict[str, Any]:
    """What is known of a probe, as soon as that is its state."""
    deadline = time.monotonic() + PATIENCE
    while True:
        known = ask(server, probe_id)
        if known.get("state") == state:
            return known
        assert time.monotonic() < deadline, known
        time.sleep(0.02)


def test_ticks_come_one_by_one_and_know_when_they_were_sent(server):
    plan = ProbePlan(count=8, interval_ms=100)
    seen = probe(server, plan)
    ticks = ticks_of(seen)
    assert [tick.n for tick in ticks] == list(range(9))
    assert [tick.due_ms for tick in ticks] == [n * 100 for n in range(9)]
    assert all(tick.sent_ms >= tick.due_ms for tick in ticks)
    delays = delays_of(seen)
    assert min(delays) > -0.01  # none was stamped later than it came, and the clock is told in microseconds
    assert statistics.median(delays) < plan.interval_ms / 2  # held to the end, it would be four intervals
    assert (seen.events[-1].event.event, seen.framing_complete, seen.error) == ("done", True, "")


def test_the_first_tick_says_which_app_this_is(request, server):
    seen = record(Request(server.url + PATH, headers=(("Accept-Encoding", "br"), ("Via", "1.1 there"))), stop_after=1)
    (first,) = ticks_of(seen)
    told = first.told
    assert told["worker"] == WORKERS[request.node.callspec.params["server"]]
    assert told["server"].startswith("gunicorn/") and told["protocol"] == "HTTP/1.1" and told["scheme"] == "http"
    assert told["accept_encoding"] == "br" and told["via"] == ["Via"]
    assert told["pid"] != server.pid and os.kill(told["pid"], 0) is None
    assert told["peer"].startswith("127.0.0.1:")
    if clock_id() is not None:  # then its clock is this one
        assert told["boot"] == clock_id()
        assert seen.sent_at - 0.5 < told["clock"] < seen.events[0].at


def test_the_peer_is_this_client_where_nothing_is_between(gevent):
    with Connection(gevent.url) as connection:
        address = "{}:{}".format(*connection.socket.getsockname())
        connection.send(request("GET", PATH + "?count=1&interval=5"))
        connection.read_until(b"event: done")
        assert f'"peer":"{address}"'.encode() in connection.received


@pytest.mark.parametrize("kind", ["plain", "ndjson"])
def test_ticks_come_as_lines_too(server, kind):
    plan = ProbePlan(count=6, interval_ms=50, type=kind)
    with open_exchange(Request(url_of(server, plan))) as exchange:
        came = list(exchange.chunks())
        assert (
            exchange.header("Content-Type")
            == {"plain": "text/plain; charset=utf-8", "ndjson": "application/x-ndjson"}[kind]
        )
        assert (exchange.framing_complete, exchange.error) == (True, "")
    lines = b"".join(chunk.data for chunk in came).decode().splitlines()
    assert [Tick.parse(line).n for line in lines] == list(range(7))
    assert came[-1].at - came[0].at > 0.05 * 6 * 0.7


def test_silence_comes_after_half_of_the_ticks_and_is_filled_where_that_is_asked_for(concurrent):
    plan = ProbePlan(count=4, interval_ms=20, silence_ms=400, heartbeat_ms=100)
    seen = probe(concurrent, plan)
    assert [tick.due_ms for tick in ticks_of(seen)] == [0, 20, 40, 460, 480]
    before, after = seen.events[2].at, seen.events[3].at
    assert after - before > 0.3
    assert [comment for comment in seen.comments if before < comment.at < after]
    assert not probe(concurrent, ProbePlan(count=4, interval_ms=20, silence_ms=200)).comments


SILENT = {"count": 4, "interval_ms": 20, "silence_ms": 5000}


def leave_in_the_silence(server: GunicornProcess, plan: ProbePlan) -> tuple[Tick, float]:
    """Close the connection when nothing more comes; return the first tick, and when, in milliseconds of the probe."""
    with Connection(server.url) as connection:
        connection.send(request("GET", f"{PATH}?{plan.query()}"))
        connection.read_until(b'"n":2,')
        first = Tick.parse(connection.received.partition(b"data: ")[2].partition(b"\n")[0].decode())
    return first, (time.monotonic() - first.told["clock"]) * 1000


def test_a_client_that_leaves_in_a_silence_is_on_record_before_the_next_tick(server):
    plan = ProbePlan(**SILENT, probe_id=secrets.token_hex(8))
    _, left_ms = leave_in_the_silence(server, plan)
    known = ask_until(server, plan.probe_id, "left")
    assert (known["schema_version"], known["id"], known["known"], known["sent"]) == (1, plan.probe_id, True, 3)
    assert plan.due_ms(2) < known["left_after_ms"] < min(known["now_ms"], left_ms + plan.silence_ms / 2)


def test_a_probe_that_was_read_to_its_end_is_whole(server):
    plan = ProbePlan(count=3, interval_ms=10, probe_id=secrets.token_hex(4))
    seen = probe(server, plan)
    known = ask_until(server, plan.probe_id, "whole")
    assert known["sent"] == len(ticks_of(seen)) == 4
    assert known["left_after_ms"] is None


def test_another_worker_knows_it_too(gevent):
    plan = ProbePlan(**SILENT, probe_id=secrets.token_hex(16))
    first, _ = leave_in_the_silence(gevent, plan)
    left = ask_until(gevent, plan.probe_id, "left")
    pid = first.told["pid"]
    os.kill(pid, signal.SIGSTOP)  # whoever answers now is the other one
    try:
        asked_of_the_other = ask(gevent, plan.probe_id)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert {**asked_of_the_other, "now_ms": 0} == {**left, "now_ms": 0}
    assert asked_of_the_other["now_ms"] > left["now_ms"]


def test_a_probe_runs_until_it_is_known_to_have_ended(concurrent):
    plan = ProbePlan(count=200, interval_ms=50, probe_id=secrets.token_hex(16))
    with open_stream(url_of(concurrent, plan)) as stream:
        stream.take(3)
        known = ask(concurrent, plan.probe_id)
        assert known["state"] == "running" and 3 <= known["sent"] < plan.count
        assert known["left_after_ms"] is None and known["now_ms"] >= 2 * plan.interval_ms
    ask_until(concurrent, plan.probe_id, "left")


def test_a_probe_that_nobody_reads_stops_and_hurts_nobody(concurrent):
    plan = ProbePlan(count=1000, interval_ms=5, pad=65536, probe_id=secrets.token_hex(8))
    with Connection(concurrent.url, receive_bytes=4096) as connection:
        connection.send(request("GET", f"{PATH}?{plan.query()}"))
        sent = wait_until_nothing_more_is_sent(concurrent, plan)
        assert ask(concurrent, plan.probe_id)["state"] == "running"
        assert 0 < sent < plan.count
        others = ProbePlan(count=5, interval_ms=100)
        assert statistics.median(delays_of(probe(concurrent, others))) < others.interval_ms
    assert ask_until(concurrent, plan.probe_id, "left")["sent"] < plan.count


def wait_until_nothing_more_is_sent(server, plan):
    deadline = time.monotonic() + PATIENCE
    before, now = -1, 0
    while before != now or not now:
        assert time.monotonic() < deadline
        time.sleep(0.4)  # many times the interval
        before, now = now, ask(server, plan.probe_id).get("sent", 0)
    return now


def test_a_probe_whose_worker_died_is_lost():
    with started("--workers", "2", **OURS) as server:
        plan = ProbePlan(count=1000, interval_ms=50, probe_id=secrets.token_hex(8))
        with open_exchange(Request(url_of(server, plan))) as exchange:
            pid = Tick.parse(next(exchange.events()).event.data).told["pid"]
            os.kill(pid, signal.SIGKILL)
            list(exchange.events())
            assert not exchange.framing_complete
        assert ask_until(server, plan.probe_id, "lost")["left_after_ms"] is None
