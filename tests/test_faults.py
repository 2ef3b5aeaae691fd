"""Each mistake shows by its signature, in real gunicorns; the fixed mode under the same conditions does not show it."""

from __future__ import annotations

import re

import pytest

from flaskstream.errors import InvalidSetting
from flaskstream.lab.bench import Bench, Case
from flaskstream.lab.faults import AS_USUAL, FAULTS, active_faults, gunicorn_settings_of
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.plan import Plan
from flaskstream.testing import open_stream

PLAN = Plan(clients=3, tokens=16, interval_ms=50)

CAUSES = {
    *("joined_body", "late_upstream_reader", "body_reading_hook", "compression", "proxy_buffering"),
    *("whole_body_filter", "kernel_cork", "no_free_worker", "worker_timeout", "blocked_hub", "idle_timeout"),
    *("duration_limit", "cache", "token_accumulator", "client_library", "unknown"),
}
"""What the doctor can name."""

each_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))


@pytest.fixture(scope="module")
def runs(model):
    """Every mistake alone, no mistake at all, and the fixed mode, each under the conditions of every mistake."""
    scenarios = dict.fromkeys([AS_USUAL, *(fault.scenario for fault in FAULTS.values())])
    cases = [Case(server, scenario) for scenario in scenarios for server in ("fixed", "none")]
    cases += [Case(fault.name, fault.scenario) for fault in FAULTS.values()]
    return Bench(PLAN, model, progress=lambda text: None).run_all(cases)


@each_fault
def test_a_mistake_alone_shows_by_its_signature(runs, fault):
    assert fault.signature(runs[Case(fault.name, fault.scenario)])


@each_fault
def test_the_fixed_mode_does_not_show_it(runs, fault):
    assert fault.signature(runs[Case("fixed", fault.scenario)]) is None


@each_fault
def test_the_same_app_without_a_mistake_does_not_show_it_either(runs, fault):
    assert fault.signature(runs[Case("none", fault.scenario)]) is None


@pytest.mark.parametrize("server", ["fixed", "none"])
def test_without_a_mistake_every_client_gets_every_token_at_the_pace_of_the_model(runs, server):
    run = runs[Case(server)]
    assert run.complete == PLAN.clients
    assert run.interval / 2 < run.median_gap < run.interval * 2
    assert run.slowest_first_token < run.duration / 2
    assert run.debug_timing == "live" and run.debug_missing == 0


@pytest.mark.parametrize("name", [fault.name for fault in FAULTS.values() if fault.scenario == AS_USUAL])
def test_a_mistake_that_holds_tokens_loses_none(runs, name):
    run = runs[Case(name)]
    assert (run.complete, run.debug_missing) == (PLAN.clients, 0)


def test_a_mistake_in_the_hook_holds_a_plain_response_and_not_the_kits(model, tmp_path):
    (tmp_path / "hooked.py").write_text(HOOKED)
    with GunicornProcess({"upstream": model.url}, app="hooked:app", folder=str(tmp_path)) as server:
        with open_stream(
            server.url + "/stream/chat", json={"q": "hi", "model": "tick?tokens=8&interval_ms=50"}
        ) as stream:
            *tokens, end = stream
        assert end.event.event == "done" and len(tokens) == 8
        assert tokens[-1].at - tokens[0].at > 5 * 0.05
        assert stream.headers["X-Logged-Length"] == "0"
        warnings = [line for line in server.errors().splitlines() if "get_data()" in line]
        assert len(warnings) == 1 and re.search(r"called by \S+hooked\.py:\d+ in log_length", warnings[0])


HOOKED = """
from flaskstream.app import create_app

app = create_app()

@app.after_request
def log_length(response):
    response.headers["X-Logged-Length"] = str(len(response.get_data()))
    return response
"""


# The table.


@each_fault
def test_every_entry_says_what_it_is(fault):
    assert FAULTS[fault.name] is fault and re.fullmatch("[a-z_]+", fault.name)
    assert fault.sentence[0].isupper() or "(" in fault.sentence.split()[0]
    assert fault.sentence.endswith(".") and len(fault.sentence) > 40
    assert len(fault.met) > 20 and len(fault.cure) > 20
    assert fault.cause in CAUSES
    assert fault.signature.__doc__


def test_without_a_name_the_usual_ones_are_on():
    assert [fault.name for fault in active_faults(())] == [fault.name for fault in FAULTS.values() if fault.is_usual]
    assert gunicorn_settings_of(()) == {"worker_class": "sync", "timeout": 30}


def test_faults_can_be_put_together_and_none_is_none():
    both = active_faults(["late_reader", "none", "joined_body"])
    assert [fault.name for fault in both] == ["late_reader", "joined_body"]
    assert active_faults(["none"]) == ()
    assert gunicorn_settings_of(["late_reader"]) == {"worker_class": "gevent", "timeout": 30}
    assert gunicorn_settings_of(["late_reader", "worker_timeout"]) == {"worker_class": "sync", "timeout": 2}


def test_a_name_that_is_none_is_refused_with_all_that_are():
    with pytest.raises(InvalidSetting, match=r"faults: expected names among joined_body, .*, none; got 'joined'"):
        active_faults(["joined"])
