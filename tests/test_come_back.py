"""Clients are told to come back at different times: 200 of them, after a loss, after a deploy, and when refused."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest
from flask import Flask
from relay_client import chat, post

from flaskstream import create_blueprint
from flaskstream.come_back import reconnection_times, retry_after
from flaskstream.doctor.measure import open_exchange
from flaskstream.errors import MaxDuration, ShuttingDown
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import ModelProcess
from flaskstream.options import StreamOptions
from flaskstream.response import event_wire
from flaskstream.sse import Decoder, Event
from flaskstream.upstream import Upstream
from flaskstream.wire import EventWire

CLIENTS = 200
SHORTEST = 3000


def told(frame: bytes) -> int | None:
    """The reconnection time that a client has been told."""
    decoder = Decoder()
    decoder.feed(frame)
    return decoder.retry


def tenths_with_a_client(times: list[int], first: int, last: int) -> int:
    return len({(time - first) * 10 // (last - first + 1) for time in times})


def test_200_clients_come_back_over_half_as_long_again_and_after_a_deploy_over_three_times_as_long() -> None:
    wires = [event_wire(StreamOptions(retry=SHORTEST)) for _ in range(CLIENTS)]
    lost = [told(wire.frame(Event("a"))) or 0 for wire in wires]
    deployed = [told(wire.failed(ShuttingDown(), "id")) or 0 for wire in wires]
    assert min(lost) >= SHORTEST and max(lost) <= 1.5 * SHORTEST
    assert min(deployed) >= SHORTEST and max(deployed) <= 3 * SHORTEST
    assert tenths_with_a_client(lost, SHORTEST, int(1.5 * SHORTEST)) == 10
    assert tenths_with_a_client(deployed, SHORTEST, 3 * SHORTEST) == 10


def test_no_two_clients_are_told_the_same_in_general() -> None:
    assert len({reconnection_times(SHORTEST) for _ in range(CLIENTS)}) > CLIENTS * 0.9


def test_the_retry_after_of_a_refusal_is_spread_too() -> None:
    assert {int(retry_after()) for _ in range(CLIENTS)} == {1, 2, 3, 4, 5}


def test_who_is_told_nothing_is_told_nothing_at_a_deploy_either() -> None:
    assert reconnection_times(None) == (None, None)
    wire = event_wire(StreamOptions(retry=None))
    assert told(wire.frame(Event("a"))) is told(wire.failed(ShuttingDown(), "id")) is None


def test_a_time_of_zero_stays_zero() -> None:
    assert reconnection_times(0) == (0, 0)


def test_an_event_s_own_time_wins() -> None:
    assert told(EventWire(retry=1, restart_retry=2).frame(Event("a", retry=77))) == 77


def test_another_failure_carries_the_time_only_if_nothing_has_carried_it() -> None:
    wire = EventWire(retry=1000, restart_retry=2000)
    assert told(wire.failed(MaxDuration(), "id")) == 1000
    wire = EventWire(retry=1000, restart_retry=2000)
    wire.frame(Event("a"))
    assert told(wire.failed(MaxDuration(), "id")) is None


def test_the_times_of_real_streams_differ(gunicorn: GunicornProcess) -> None:
    seen = [chat(gunicorn, "tick?tokens=1&interval_ms=5") for _ in range(12)]
    times = [int(found) for recording in seen for found in re.findall(rb"^retry: (\d+)$", recording.body, re.MULTILINE)]
    assert len(times) == 12  # once in each
    assert len(set(times)) > 6 and all(SHORTEST <= time <= 1.5 * SHORTEST for time in times)


def test_at_a_deploy_the_last_event_of_each_stream_says_when(model: ModelProcess) -> None:
    arguments = ("--graceful-timeout", "4")
    with GunicornProcess({"upstream": model.url}, arguments) as server:
        server.wait_until_it_answers()
        asked = post(server, "/stream/chat", {"q": "hello", "model": "tick?tokens=400&interval_ms=50"})
        exchanges = [open_exchange(asked) for _ in range(8)]
        opened: list[Any] = [exchange.__enter__() for exchange in exchanges]
        try:
            for exchange in opened:
                next(exchange.events())
            os.kill(server.pid, signal.SIGTERM)
            ends = [list(exchange.events())[-1].event for exchange in opened]
        finally:
            for exchange in exchanges:
                exchange.__exit__(None, None, None)
    assert {event.json()["code"] for event in ends} == {"shutting_down"}
    times = [event.retry for event in ends]
    assert all(time is not None and SHORTEST <= time <= 3 * SHORTEST for time in times)
    assert len(set(times)) > 4


def test_a_client_without_a_place_is_told_when_in_a_header() -> None:
    app = Flask(__name__)
    app.register_blueprint(create_blueprint(Upstream("http://127.0.0.1:9/v1")))
    import flaskstream.response as response
    from flaskstream.open_streams import OpenStreams

    full = OpenStreams()
    full.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(response, "OPEN_STREAMS", full)
        answers = [app.test_client().get("/chat?q=a") for _ in range(CLIENTS)]
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.headers["Retry-After"] for answer in answers} == set("12345")
