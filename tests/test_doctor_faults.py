"""The doctor and the mistakes of the lab: each is expected to show, or it is said why no client can see it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hops.cases import CASES, FINE, LAB, MISTAKES, allows
from made_looks import made_look

from flaskstream.doctor.chain import judge
from flaskstream.doctor.diagnosis import Hop
from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.experiments import BESIDE, CUT_LATER, ENDPOINT, ENDPOINT_OF_BROWSERS, FIRST, SYNC
from flaskstream.doctor.looks import Look, Variant
from flaskstream.lab.faults import FAULTS, NO_FAULT
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import ModelProcess
from flaskstream.testing import open_stream

CHAT, PROBE = "http://127.0.0.1:8000/chat", "http://127.0.0.1:8000/probe"
UNKNOWN = "unknown"


def test_each_mistake_is_a_case_with_the_probe_alone_and_beside_the_chat() -> None:
    assert set(MISTAKES) == {*FAULTS, NO_FAULT}
    for name in MISTAKES:
        assert {f"lab {name}: the probe", f"lab {name}: the chat"} <= set(LAB) <= set(CASES)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_the_cause_that_is_expected_is_the_one_in_the_table_of_mistakes(fault) -> None:
    mistake = MISTAKES[fault.name]
    if mistake.chat == FINE and mistake.probe == FINE:
        assert mistake.why and fault.cause in (UNKNOWN, mistake.note)
    else:
        assert allows(mistake.cause, fault.cause)


@pytest.mark.parametrize("fault", ["body_reading_hook", "unstreamed_upstream"])
def test_the_probe_of_the_broken_mode_is_held_by_what_is_outside_of_the_view(model: ModelProcess, fault: str) -> None:
    with GunicornProcess({"upstream": model.url, "faults": fault}) as server:
        server.wait_until_it_answers()
        with open_stream(server.url + "/stream/probe?count=5&interval=100") as stream:
            *ticks, end = stream
    assert (len(ticks), end.event.event) == (6, "done")
    took = ticks[-1].at - ticks[0].at
    assert took < 0.1 if fault == "body_reading_hook" else took > 0.25


# What the probe shows of an endpoint beside which it is asked.


def made(late: float, worker: str, stall: float = 0.0) -> tuple[Hop, ...]:
    """Return what is said of an endpoint that streams, where the probe beside it came so late, or stalled."""
    arrivals = made_look(Variant("made", count=20))
    ordinary = replace(arrivals, variant=ENDPOINT, ended_at=2.0, hello={})
    looks = {"first": ordinary, "browser": replace(ordinary, variant=ENDPOINT_OF_BROWSERS)}
    beside = stalled(delayed(made_look(BESIDE), late), stall)
    looks["beside"] = replace(beside, hello={"worker": worker})
    return judge([Evidence(CHAT, looks), Evidence(PROBE, {"first": made_look(FIRST)})])


def delayed(look: Look, seconds: float) -> Look:
    ticks = tuple(replace(tick, came=tick.came + seconds) for tick in look.ticks)
    return replace(look, ticks=ticks, ended_at=look.ended_at + seconds, queued=seconds)


def stalled(look: Look, seconds: float) -> Look:
    *first, last = look.ticks
    late = replace(last, sent=last.sent + seconds, came=last.came + seconds)
    return replace(look, ticks=(*first, late))


def test_a_view_that_lets_nobody_else_run_is_told_by_the_probe_beside_it() -> None:
    chat, probe = made(late=1.9, worker="gevent")
    assert (chat.verdict.name, chat.causes[0].name, probe.verdict.name) == ("serialised", "blocked_hub", FINE)


def test_one_that_computes_now_and_then_stalls_the_probe_beside_it() -> None:
    chat, probe = made(late=0.0, worker="gevent", stall=0.8)
    assert (chat.verdict.name, chat.causes[0].name, probe.verdict.name) == ("source_stalled", "blocked_hub", FINE)


def test_a_sync_worker_is_no_blocked_hub() -> None:
    chat, _ = made(late=1.9, worker="sync")
    assert chat.causes[0].name == "no_free_worker"


@pytest.mark.parametrize("late", [0.0, 0.4])
def test_a_probe_that_a_busy_machine_kept_waiting_is_no_fault(late: float) -> None:
    assert [hop.verdict.name for hop in made(late, "gevent")] == [FINE, FINE]


# gunicorn looks once a second for workers that give no sign of life.


def cut(variant: Variant, at: float, worker: str) -> Look:
    look = made_look(variant, hello={"worker": worker})
    ticks = tuple(tick for tick in look.ticks if tick.came < at)
    return replace(look, ticks=ticks, is_whole=False, ended="close", ended_at=at)


@pytest.mark.parametrize(("worker", "verdict"), [("sync", "cut_by_duration"), ("gevent", "truncated")])
def test_a_sync_worker_is_killed_at_its_timeout_or_up_to_a_second_later(worker: str, verdict: str) -> None:
    looks = {"first": made_look(FIRST, hello={"worker": worker}), "endure": cut(SYNC[0], 2.1, worker)}
    looks["endure_again"] = cut(CUT_LATER[0], 3.15, worker)
    (hop,) = judge([Evidence(PROBE, looks)])
    assert hop.verdict.name == verdict
    assert (hop.causes[0].name == "worker_timeout") == (worker == "sync")
