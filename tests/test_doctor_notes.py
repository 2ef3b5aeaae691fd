"""The doctor on what is no hold: types that are lost, requests that wait or are refused, cuts by size. No network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_looks import made_evidence, made_look, nothing, whole

from flaskstream.doctor.chain import judge
from flaskstream.doctor.diagnosis import Diagnosis, Hop
from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.exit_codes import EXIT_HELD
from flaskstream.doctor.experiments import CUT, FIRST, FLOWING, TWO
from flaskstream.doctor.looks import Look, Variant
from flaskstream.doctor.outcome import exit_code_of
from flaskstream.doctor.report import text_report

FLOW = {variant.name: variant for variant in FLOWING}
EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache, no-transform"}


def outer_of(*evidence: Evidence) -> Hop:
    return judge(evidence)[0]


def said(headers: dict[str, str]) -> Evidence:
    return made_evidence(headers=headers)


@pytest.mark.parametrize("kind, told", [("text/plain", "comes as text/plain"), ("", "is lost on the way")])
def test_a_type_that_is_changed_on_the_way_is_a_note_for_an_eventsource_refuses_it(kind: str, told: str) -> None:
    changed = said({**EVENTS, "content-type": kind})
    for hop in (outer_of(changed), outer_of(changed, said(EVENTS))):
        assert hop.verdict.name == "streams"
        assert [note for note in hop.notes if told in note and "EventSource refuses" in note]


def test_a_type_that_came_so_from_behind_is_not_this_hops() -> None:
    changed = said({**EVENTS, "content-type": "text/plain"})
    outer, inner = judge([changed, changed])
    assert (len(outer.notes), len(inner.notes)) == (0, 1)


def test_no_transform_that_is_lost_is_a_note() -> None:
    lost = said({"content-type": "text/event-stream"})
    assert [note for note in outer_of(lost, said(EVENTS)).notes if "no-transform is lost here" in note]
    assert not outer_of(lost).notes and not outer_of(lost, lost).notes and not outer_of(said(EVENTS), lost).notes


def test_get_that_is_held_where_post_streams_is_a_note() -> None:
    evidence = made_evidence(whole, {"post": made_look(FLOW["post"], nothing)})
    assert "GET is held, POST streams" in outer_of(evidence).notes
    assert "GET is held, POST streams" not in outer_of(made_evidence(whole)).notes


def test_a_hop_that_lets_each_request_wait_is_told_by_how_long_it_took_to_the_app() -> None:
    waits = _queued(2.0)
    assert any("2.0 s late" in note for note in outer_of(waits, _queued(0.01)).notes)
    assert any("2.0 s late" in note for note in outer_of(waits).notes)
    assert not outer_of(waits, waits).notes  # it is the hop behind
    assert not outer_of(_queued(0.2)).notes


def _queued(seconds: float) -> Evidence:
    """All requests come to the app so late, and the ticks by as much."""
    looks = {}
    for name, look in made_evidence().looks.items():
        ticks = tuple(replace(tick, came=tick.came + seconds) for tick in look.ticks)
        looks[name] = replace(look, ticks=ticks, queued=seconds, ended_at=look.ended_at + seconds)
    return Evidence("http://127.0.0.1/probe", looks)


@pytest.mark.parametrize("status", [429, 503])
def test_a_second_stream_that_is_refused_is_one_worker_too_few(status: int) -> None:
    refused = Look(variant=TWO, status=status, ended="length", ended_at=0.01)
    hop = outer_of(made_evidence(nothing, {"two": refused}), made_evidence())
    assert (hop.verdict.name, hop.causes[0].name) == ("serialised", "no_free_worker")
    assert f"one was refused, with {status}" in hop.verdict.sentence and str(status) in hop.causes[0].evidence
    assert not hop.notes
    assert exit_code_of(Diagnosis((hop,))) == EXIT_HELD


def test_a_refusal_at_a_hop_whose_hop_behind_answers_is_not_cured_by_starting_that() -> None:
    refused = Evidence("", {"first": Look(variant=FIRST, status=503, ended="length")})
    outer = outer_of(refused, made_evidence())
    assert "is up" not in outer.causes[0].cure and "the hop behind it answers" in outer.causes[0].evidence
    assert "see that the hop behind it is up" in outer_of(refused).causes[0].cure


def test_a_login_may_be_a_cookie() -> None:
    forbidden = Evidence("", {"first": Look(variant=FIRST, status=403, ended="length")})
    assert "--header 'Cookie: ...'" in outer_of(forbidden).causes[0].cure


def test_what_a_hop_says_of_itself_is_obeyed_by_no_terminal() -> None:
    kind, product = "text/\x1b[2J\u202ehtml", "\x1b[2J\u202e"
    page = Evidence("", {"first": Look(variant=FIRST, status=200, headers={"content-type": kind})}, product)
    shown = text_report(Diagnosis(judge([page])), color=False, width=80, unicode=True)
    assert not {"\x1b", "\u202e"} & set(shown)
    assert shown.count(r"\x1b[2J\u202e") >= 2


def test_a_verdict_on_a_hop_that_refused_some_requests_says_so() -> None:
    refused = Look(variant=FLOW["post"], status=503, ended="length")
    for evidence, but in ((made_evidence(nothing, {"post": refused}), True), (made_evidence(), False)):
        shown = text_report(Diagnosis(judge([evidence])), color=False, width=80, unicode=True, quiet=True)
        assert ("but some requests were refused" in shown) == but and "Every hop streams" in shown


AGAIN, DENSE = CUT


def test_a_cut_after_as_many_bytes_is_none_for_its_age() -> None:
    hop = outer_of(_cut({"first": (FIRST, 6), "again": (AGAIN, 6), "dense": (DENSE, 6)}))
    assert hop.verdict.name == "truncated" and "after about 535 bytes" in hop.verdict.sentence
    assert [cause.cure for cause in hop.causes] == ["raise the limit on the size of an answer, in the hop that cuts"]


def test_a_cut_after_the_same_time_is_one_whatever_came_by_then() -> None:
    hop = outer_of(_cut({"first": (FIRST, 6), "again": (AGAIN, 6), "dense": (DENSE, 37)}))
    assert hop.verdict.name == "cut_by_duration"


def _cut(cuts: dict[str, tuple[Variant, int]]) -> Evidence:
    """Looks that end with their newest tick, after so many."""
    looks: dict[str, Any] = {}
    for name, (variant, ticks) in cuts.items():
        look = made_look(variant)
        at = look.ticks[ticks - 1].came + 0.02
        looks[name] = replace(look, ticks=look.ticks[:ticks], ended="close", ended_at=at, is_whole=False, error="a cut")
    return Evidence("", looks)
