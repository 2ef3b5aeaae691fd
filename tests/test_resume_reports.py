"""What is said of recorded streams outside of them: in the log, to `on_answer`, and to who chose the wrong store."""

from __future__ import annotations

import logging
import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from recorded import ask, begin, follow, recorded_server, script, stream_id, wait_until

from flaskstream import Upstream, create_blueprint
from flaskstream.come_back import time_to_move
from flaskstream.errors import InvalidSetting
from flaskstream.testing import serve

RETRY = 3000


@pytest.fixture
def reports():
    return []


@pytest.fixture
def server(model, reports):
    app = Flask("reports")
    blueprint = create_blueprint(
        Upstream(model.url), "memory:", debug=True, on_answer=reports.append, owner=lambda: "ann", orphan_timeout=0.5
    )
    app.register_blueprint(blueprint, url_prefix="/stream")
    with serve(app) as server:
        yield server


def test_an_answer_is_reported_once_however_many_read_it(server, reports):
    said = script("tick", tokens=8)
    key = ("Idempotency-Key", secrets.token_hex(8))
    with ThreadPoolExecutor(3) as pool:
        (told, *_) = pool.map(lambda _: stream_id(begin(server, said, key)), range(3))
    (report,) = reports
    assert (report.stream_id, report.owner, report.state, report.reason) == (told, "ann", "done", None)
    assert report.events == said.tokens and report.duration_ms >= said.seconds * 1000 * 0.9


def test_what_a_lonely_answer_has_cost_is_reported(server, reports):
    begin(server, script("tick", tokens=500), stop_after=1)
    wait_until(lambda: reports)
    assert (reports[0].state, reports[0].reason) == ("stopped", "no_reader")
    assert reports[0].events > 3


def test_a_failure_is_reported_with_its_code(server, reports):
    begin(server, script("tick", tokens=9, error_after=4))
    assert [(report.state, report.reason, report.events) for report in reports] == [("failed", "upstream_error", 4)]


def test_a_function_that_fails_costs_nobody_anything(model, caplog):
    def fail(report):
        raise ZeroDivisionError("of the app")

    app = Flask("fails")
    app.register_blueprint(create_blueprint(Upstream(model.url), "memory:", debug=True, on_answer=fail))
    with serve(app) as server:
        assert begin(server, script("tick", tokens=2), path="/chat").events[-1].event.event == "done"
    assert "on_answer failed" in caplog.text


def test_what_is_no_function_is_refused():
    with pytest.raises(InvalidSetting, match="on_answer: expected a function"):
        create_blueprint(Upstream("http://127.0.0.1:1"), "memory:", on_answer="log")


def test_every_line_of_the_log_has_the_id_that_the_client_knows(server, caplog):
    caplog.set_level(logging.INFO, "flaskstream")
    told = stream_id(begin(server, script("tick", tokens=3)))
    follow(server, told)
    wait_until(lambda: caplog.text.count(f"stream id={told}/") == 2)
    assert caplog.text.count(f"answer id={told} end=done events=3") == 1


def test_streams_in_the_memory_of_many_processes_are_warned_of(model):
    with recorded_server(model.url, "memory:", workers=2) as server:
        told = stream_id(begin(server, script("tick", tokens=2)))
        wait_until(lambda: "store: expected one process, got several" in server.errors())
        ask(server, "HEAD", told)


def test_who_goes_on_elsewhere_comes_soon_and_not_all_at_once():
    times = [time_to_move(RETRY) for _ in range(200)]
    assert min(times) >= RETRY * 0.1 and max(times) <= RETRY
    assert len({time * 10 // RETRY for time in times}) >= 9
    assert time_to_move(None) is None
