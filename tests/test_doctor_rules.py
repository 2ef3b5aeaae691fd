"""The doctor's rules, on looks that were made: what a hop does is known exactly, and no network is asked."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from made_looks import (
    Hold,
    away,
    batch,
    buffer,
    clock,
    cork,
    first_block,
    first_seconds,
    made_evidence,
    made_look,
    newest,
    nothing,
    whole,
)

from flaskstream.doctor.causes import causes_of
from flaskstream.doctor.chain import judge
from flaskstream.doctor.diagnosis import Diagnosis, Hop
from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.exit_codes import EXIT_CANNOT_TELL
from flaskstream.doctor.experiments import CUT, FIRST, FLOWING, HELD, STAGES, TWO, silence
from flaskstream.doctor.looks import Look, Variant
from flaskstream.doctor.outcome import exit_code_of
from flaskstream.doctor.shapes import shape_of
from flaskstream.probe import ticks

NOISES = (0.002, 0.02, 0.035)
"""Seconds that each tick may come later than it would: up to the noise of a very busy machine."""

FLOW = {variant.name: variant for variant in FLOWING}


def hop(evidence: Evidence) -> Hop:
    (judged,) = judge([evidence])
    return judged


def judged(evidence: Evidence) -> tuple[str, str]:
    """The verdict, and the first cause."""
    found = hop(evidence)
    return found.verdict.name, found.causes[0].name if found.causes else ""


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("size", [128, 256, 512, 1000, 1024, 1500, 2048, 4096, 6000, 8192, 16384, 30000, 65536, 131072])
def test_a_buffer_is_found_whatever_its_size(size: int, noise: float) -> None:
    evidence = made_evidence(buffer(size), noise=noise)
    assert judged(evidence) == ("bursts_by_size", "proxy_buffering")


@pytest.mark.parametrize("size", [300, 700, 1400, 4096, 16384, 65536])
def test_the_size_of_a_buffer_is_told_within_a_tick(size: int) -> None:
    evidence = made_evidence(buffer(size))
    tick = 57 if size < 2000 else 2048 + 57 if size < 60_000 else 20_057
    assert abs(evidence.buffer_bytes - size) <= tick


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("seconds", [0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("phase", [0, 0.3, 0.7])
def test_a_clock_is_told_from_a_size(seconds: float, phase: float, noise: float) -> None:
    evidence = made_evidence(clock(seconds, phase), noise=noise)
    assert hop(evidence).verdict.name == "bursts_by_time"
    assert evidence.timer == pytest.approx(seconds, rel=0.5)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [2, 3, 5, 8, 10, 16, 24])
def test_what_collects_a_number_of_ticks_is_told_from_a_size(count: int, noise: float) -> None:
    evidence = made_evidence(batch(count), noise=noise, is_direct=True)
    assert judged(evidence) == ("bursts_by_size", "token_accumulator")
    assert evidence.batch_ticks == count


def test_a_hop_that_collects_in_front_of_an_app_that_does_not_is_no_accumulator_of_tokens() -> None:
    outer, inner = judge([made_evidence(batch(3)), made_evidence(is_direct=True)])
    assert (outer.verdict.name, [cause.name for cause in outer.causes]) == ("bursts_by_size", ["proxy_buffering"])
    assert inner.verdict.name == "streams"
    alone = hop(made_evidence(batch(3))).causes  # either of the two
    assert [cause.name for cause in alone] == ["proxy_buffering", "token_accumulator"]
    assert all(cause.would_tell for cause in alone)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_keeps_the_newest_is_one_event_late(count: int, noise: float) -> None:
    assert judged(made_evidence(newest(count), noise=noise)) == ("one_event_late", "proxy_buffering")


@pytest.mark.parametrize("size", [700, 1024, 4096, 16384, 60_000])
def test_what_holds_the_beginning_alone_is_told_from_a_buffer(size: int) -> None:
    evidence = made_evidence(first_block(size))
    assert judged(evidence) == ("headers_late", "proxy_buffering")


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.08, 0.1, 0.13, 0.2, 0.3, 0.6, 1.0])
def test_an_app_that_is_far_away_is_no_fault(seconds: float, noise: float) -> None:
    assert judged(made_evidence(away(seconds), noise=noise)) == ("streams", "")


def test_a_cork_is_told_from_a_clock_by_a_client_of_http10() -> None:
    assert judged(made_evidence(cork(), {"http10": nothing})) == ("bursts_by_time", "kernel_cork")
    first, second = hop(made_evidence(cork())).causes
    assert (first.name, second.name) == ("proxy_buffering", "kernel_cork")
    assert second.would_tell


@pytest.mark.parametrize("noise", NOISES)
def test_what_holds_nothing_streams(noise: float) -> None:
    assert judged(made_evidence(noise=noise)) == ("streams", "")


# Why a whole body is held.


def test_a_body_that_a_proxy_held_is_a_filters_if_the_hop_behind_streams() -> None:
    outer, inner = judge([made_evidence(whole), made_evidence()])
    assert (outer.verdict.name, [cause.name for cause in outer.causes]) == ("held_to_end", ["whole_body_filter"])
    assert inner.verdict.name == "streams"


def test_a_body_held_behind_a_proxy_may_be_held_by_either_and_what_would_tell_is_said() -> None:
    causes = hop(made_evidence(whole)).causes
    assert {cause.name for cause in causes} == {"whole_body_filter", "joined_body", "body_reading_hook"}
    assert all(cause.would_tell for cause in causes)


def test_a_length_on_a_stream_speaks_for_a_hook_that_read_it() -> None:
    headers = {"content-type": "text/event-stream", "content-length": "900"}
    assert judged(made_evidence(whole, is_direct=True)) == ("held_to_end", "joined_body")
    assert judged(made_evidence(whole, is_direct=True, headers=headers)) == ("held_to_end", "body_reading_hook")


def as_endpoint(look: Look, place: str = "127.0.0.1", product: str = "") -> Evidence:
    """What such a look would be of an ordinary endpoint: its events carry no stamps."""
    ticks = tuple(replace(tick, due=tick.came, sent=tick.came) for tick in look.ticks)
    asked = replace(look, variant=Variant("first", is_probe=False), ticks=ticks, hello={})
    return Evidence(f"http://{place}/chat", {"first": asked}, product)


HEADERS = {"content-type": "text/event-stream"}
COUNTED = {**HEADERS, "content-length": "900"}


@pytest.mark.parametrize(
    "headers, headers_at, causes",
    [
        (HEADERS, 1.5, ["late_upstream_reader", "joined_body"]),  # nothing tells them apart, and one is more usual
        (COUNTED, 1.5, ["joined_body", "late_upstream_reader"]),  # a length: who wrote it had it all
        (HEADERS, 0.01, ["late_upstream_reader", "joined_body"]),
        (COUNTED, 0.01, ["late_upstream_reader", "joined_body"]),  # it had begun before it had anything
    ],
)
def test_why_an_endpoint_came_whole_is_told_by_what_is_nearest_to_the_evidence(
    headers: dict[str, str], headers_at: float, causes: list[str]
) -> None:
    held = made_look(FIRST, whole, headers=headers, headers_at=headers_at)
    endpoint = as_endpoint(held)
    found, _ = judge([endpoint, made_evidence()])
    assert [cause.name for cause in found.causes] == causes
    assert [cause.confidence for cause in found.causes] == sorted((c.confidence for c in found.causes), reverse=True)


@pytest.mark.parametrize("hold", [buffer(4096), clock(0.2), clock(0.5), batch(4), newest(), whole, first_block(1000)])
def test_causes_come_in_the_order_in_which_they_are_likely(hold: Hold) -> None:
    for is_direct in (True, False, None):
        likely = [cause.confidence for cause in hop(made_evidence(hold, is_direct=is_direct)).causes]
        assert likely == sorted(likely, reverse=True)


# Codings.


def coded(name: str, hold: Hold, coding: str) -> Look:
    return made_look(FLOW[name], hold, coding=coding)


def test_a_coding_that_is_held_where_none_is_not_is_compression() -> None:
    held = {name: coded(name, whole, "gzip") for name in ("browser", "gzip")}
    (cause,) = hop(made_evidence(nothing, held)).causes
    assert cause.name == "compression"
    assert "held with gzip" in cause.evidence and "prompt with br, zstd" in cause.evidence


def test_a_compressor_that_is_one_event_late_is_told() -> None:
    held = {name: coded(name, newest(), "gzip") for name in ("browser", "gzip")}
    assert judged(made_evidence(nothing, held)) == ("one_event_late", "compression")


def undecoded(name: str, arrivals: list[tuple[float, int]]) -> Look:
    look = made_look(FLOW[name], coding="br", hello={}, pieces=tuple(arrivals), is_whole=False)
    return replace(look, ticks=())


def test_a_coding_that_cannot_be_undone_here_is_judged_by_its_arrivals() -> None:
    variant = FLOW["br"]
    prompt = [(n * variant.interval, 30) for n in range(variant.count + 1)]
    late = [(0.001, 2), (variant.seconds, 300)]
    assert judged(made_evidence(nothing, {"br": undecoded("br", prompt)})) == ("streams", "")
    assert judged(made_evidence(nothing, {"br": undecoded("br", late)})) == ("held_to_end", "compression")


def test_a_look_that_was_only_slower_once_is_no_compression() -> None:
    assert judged(made_evidence(nothing, {"gzip": coded("gzip", away(0.08), "gzip")})) == ("streams", "")


# Ends, sources, workers, caches.


def cut(variant: Variant, seconds: float, **more: Any) -> Look:
    look = made_look(variant, ended="close", is_whole=False, error="expected the final chunk, got the end", **more)
    ticks = tuple(tick for tick in look.ticks if tick.came < seconds)
    return replace(look, ticks=ticks, ended_at=seconds)


def test_two_ends_after_the_same_time_are_a_limit_and_two_others_are_not() -> None:
    again = CUT[0]
    same = Evidence("", {"first": cut(FIRST, 0.9), "again": cut(again, 0.95)})
    other = Evidence("", {"first": cut(FIRST, 0.3), "again": cut(again, 1.2)})
    assert judged(same) == ("cut_by_duration", "duration_limit")
    assert hop(other).verdict.name == "truncated"


@pytest.mark.parametrize("seconds", [0.04, 0.09])
def test_a_cut_in_the_first_silence_may_have_either_cause_and_what_would_tell_is_said(seconds: float) -> None:
    evidence = Evidence("", {"first": cut(FIRST, seconds), "again": cut(CUT[0], seconds + 0.01)})
    found = hop(evidence)
    assert (found.verdict.name, [cause.name for cause in found.causes]) == (
        "truncated",
        ["idle_timeout", "duration_limit"],
    )
    assert len({cause.confidence for cause in found.causes}) == 1
    assert all("ticks that come closer, interval=" in cause.would_tell for cause in found.causes)
    assert f"{found.evidence.first.silences[-1] * 1000:.0f} ms of silence" in found.verdict.sentence


def test_a_cut_before_anything_came_may_have_either_cause_too() -> None:
    evidence = Evidence("", {"first": cut(FIRST, 0.0), "again": cut(CUT[0], 0.0)})
    looks = {name: replace(look, ended_at=1.0) for name, look in evidence.looks.items()}
    causes = hop(Evidence("", looks)).causes
    assert {cause.name for cause in causes} == {"idle_timeout", "duration_limit"}
    assert all("at the hop behind" in cause.would_tell for cause in causes)


@pytest.mark.parametrize("ended", ["left", "timeout"])
def test_two_looks_that_the_doctor_itself_left_are_no_limit(ended: str) -> None:
    looks = {"first": cut(FIRST, 0.9), "again": cut(CUT[0], 0.95)}
    evidence = Evidence("", {name: replace(look, ended=ended) for name, look in looks.items()})
    assert judged(evidence) == ("truncated", "unknown")


def test_denser_ticks_tell_a_silence_from_an_age() -> None:
    again, dense = CUT
    looks = {"first": cut(FIRST, 0.08), "again": cut(again, 0.085)}
    assert judged(Evidence("", {**looks, "dense": cut(dense, 0.082)})) == ("cut_by_duration", "duration_limit")
    lives_on = Evidence("", {**looks, "dense": made_look(dense)})
    assert judged(lives_on) == ("cut_by_silence", "idle_timeout")
    quiet = lives_on.first.silences[-1] * 1000
    assert f"after {quiet:.0f} ms of silence" in hop(lives_on).verdict.sentence


def test_a_silence_that_another_look_lived_through_cut_nothing() -> None:
    looks = {"first": cut(FIRST, 0.05), "again": cut(CUT[0], 0.05)}
    quieter = cut(Variant("slow", count=3, interval_ms=60), 0.07)
    assert judged(Evidence("", looks))[0] == "truncated"
    assert judged(Evidence("", {**looks, "slow": quieter})) == ("cut_by_duration", "duration_limit")


def test_a_sync_worker_that_cuts_is_one_that_was_killed() -> None:
    hello = {"clock": 1.0, "worker": "sync"}
    again = cut(CUT[0], 0.95, hello={"clock": 2.0, "worker": "sync"})
    assert judged(Evidence("", {"first": cut(FIRST, 0.9, hello=hello), "again": again})) == (
        "cut_by_duration",
        "worker_timeout",
    )


def test_a_cut_in_a_silence_is_an_idle_timeout_and_tells_after_how_long() -> None:
    variant = silence(3)
    look = cut(variant, 2.2)
    evidence = made_evidence(nothing, {"silence": look})
    assert judged(evidence) == ("cut_by_silence", "idle_timeout")
    assert "2.0 s" in hop(evidence).verdict.sentence


def test_a_source_that_stalls_is_not_held() -> None:
    look = made_look(FIRST)
    ticks = tuple(replace(tick, sent=tick.sent + 0.5, came=tick.came + 0.5) for tick in look.ticks[8:])
    stalled = replace(look, ticks=look.ticks[:8] + ticks)
    assert judged(Evidence("", {"first": stalled})) == ("source_stalled", "blocked_hub")


def test_a_source_that_stalls_now_and_then_is_the_last_hops_fault_wherever_it_was_seen() -> None:
    look = made_look(FIRST)
    late = tuple(replace(tick, sent=tick.sent + 0.5, came=tick.came + 0.5) for tick in look.ticks[8:])
    stalled = made_evidence(nothing, {"first": replace(look, ticks=look.ticks[:8] + late)})
    outer, inner = judge([stalled, made_evidence()])
    assert (outer.verdict.name, inner.verdict.name) == ("streams", "source_stalled")
    assert [cause.name for cause in inner.causes] == ["blocked_hub"] and not outer.causes


def test_the_second_of_two_streams_that_waits_for_the_first_is_one_worker_too_few() -> None:
    waiting = replace(made_look(TWO, away(0.65)), queued=0.65)
    evidence = made_evidence(nothing, {"two": waiting})
    assert judged(evidence) == ("serialised", "no_free_worker")


def test_what_was_sent_before_it_was_asked_for_is_a_replay() -> None:
    same = {"clock": 5.0}
    evidence = Evidence("", {"first": made_look(FIRST, hello=same), "gzip": made_look(FLOW["gzip"], hello=same)})
    assert judged(evidence) == ("replayed", "cache")


@pytest.mark.parametrize(
    "more", [{"status": 404}, {"status": 302}, {"headers": {"content-type": "text/html"}}], ids=str
)
def test_what_is_no_stream_is_said_to_be_none(more: dict[str, Any]) -> None:
    page = replace(made_look(FIRST, **more), ticks=(), hello={}, is_whole=False)
    assert hop(Evidence("", {"first": page})).verdict.name == "not_a_stream"


# Several hops.


@pytest.mark.parametrize("hold", [buffer(4096), clock(0.5), batch(4), newest(), whole, first_block(1000)])
def test_what_comes_from_behind_is_not_this_hops(hold: Hold) -> None:
    outer, inner = judge([made_evidence(hold, noise=0.03), made_evidence(hold)])
    assert outer.verdict.name == "streams" and "from behind" in outer.verdict.sentence
    assert not outer.causes
    assert inner.verdict.name != "streams"


def test_a_hop_in_which_no_tick_waits_longer_adds_nothing_whatever_it_looks_like() -> None:
    outer, inner = judge([made_evidence(first_block(4096)), made_evidence(buffer(4096))])
    assert (outer.verdict.name, inner.verdict.name) == ("streams", "bursts_by_size")


def test_two_hops_at_fault_are_both_named() -> None:
    hops = judge([made_evidence(buffer(16384)), made_evidence(buffer(4096)), made_evidence()])
    assert Diagnosis(hops).offenders == (0, 1)


def test_a_cork_in_front_of_a_buffer_is_told_by_the_time_that_it_adds() -> None:
    def both(sent: Any, end: float) -> list[float]:
        return sorted(at + 0.2 if at < end else end for at in buffer(4096)(sent, end))

    outer, inner = judge([made_evidence(both), made_evidence(buffer(4096))])
    assert (outer.verdict.name, inner.verdict.name) == ("bursts_by_time", "bursts_by_size")
    assert "kernel_cork" in {cause.name for cause in outer.causes}


# Notes.


@pytest.mark.parametrize(
    "look, part",
    [
        ("unmarked", "X-Accel-Buffering"),
        ("post", "POST is held"),
        ("plain", "text/plain is held"),
        ("ndjson", "application/x-ndjson is held"),
    ],
)
def test_what_is_held_in_one_way_alone_is_a_note_and_no_fault(look: str, part: str) -> None:
    found = hop(made_evidence(nothing, {look: made_look(FLOW[look], whole)}))
    assert found.verdict.name == "streams"
    assert [note for note in found.notes if part in note]


def test_a_going_that_is_not_noticed_is_a_note() -> None:
    evidence = made_evidence(nothing, {"leave": made_look(FLOW["leave"], left_noticed=None)})
    assert "was not told" in " ".join(hop(evidence).notes)


def test_a_hop_that_streams_has_no_causes_and_each_other_verdict_has_one() -> None:
    for hold in (buffer(4096), clock(0.5), batch(4), newest(), whole, first_block(1000)):
        evidence = made_evidence(hold)
        assert causes_of(evidence, hop(evidence).verdict)
    assert causes_of(made_evidence(), hop(made_evidence()).verdict) == ()


def test_every_stage_names_its_looks_once() -> None:
    for stage in STAGES:
        names = [variant.name for variant in stage.variants]
        assert len(names) == len(set(names))


def test_a_look_without_any_tick_was_held_to_the_end() -> None:
    silent = replace(made_look(FIRST), ticks=())
    assert shape_of(silent).kind == "held_to_end"


def test_a_look_in_which_nothing_comes_until_the_doctor_goes_cannot_be_judged() -> None:
    silent = replace(made_look(FIRST), ticks=(), ended="timeout", ended_at=9.5, is_whole=False)
    evidence = Evidence("", {"first": silent})
    found = hop(evidence)
    assert found.verdict.name == "not_a_stream" and "no tick within 9.5 s" in found.verdict.sentence
    assert exit_code_of(Diagnosis((found,))) == EXIT_CANNOT_TELL
    assert not any(stage.applies(evidence) for stage in STAGES)
    assert found.causes[0].would_tell


def test_experiments_that_were_left_out_are_a_note() -> None:
    evidence = Evidence("", made_evidence().looks, left_out=("again", "endure"))
    assert any(note.endswith("is not known: again, endure") for note in hop(evidence).notes)


# What the peer says is not always what it should be.


@pytest.mark.parametrize("offset, claim", [(0.7, "after it came"), (5.0, "after it came"), (-0.2, "before it was due")])
@pytest.mark.parametrize("which", [slice(None), slice(5, 6)])
def test_stamps_that_cannot_be_are_judged_by_nobody(offset: float, claim: str, which: slice) -> None:
    look = made_look(FIRST)
    numbers = {tick.number for tick in look.ticks[which]}
    ticks = tuple(replace(tick, sent=tick.sent + offset * (tick.number in numbers)) for tick in look.ticks)
    found = hop(made_evidence(nothing, {"first": replace(look, ticks=ticks)}))
    assert found.verdict.name == "not_a_stream" and claim in found.verdict.sentence
    assert exit_code_of(Diagnosis((found,))) == EXIT_CANNOT_TELL
    assert found.causes[0].cure.startswith("find what answers in the place of the probe")


def test_a_replay_whose_clock_is_another_machines_is_still_told_by_its_stamps() -> None:
    same = {"clock": 5.0}
    at_once = replace(made_look(FIRST, away(0), hello=same, queued=None))
    ticks = tuple(replace(tick, came=0.01) for tick in at_once.ticks)
    looks = {name: replace(at_once, ticks=ticks) for name in ("first", "two")}
    assert judged(Evidence("", looks)) == ("replayed", "cache")
    assert any(TWO in stage.variants and stage.applies(Evidence("", {"first": looks["first"]})) for stage in STAGES)


@pytest.mark.parametrize("count, said", [(0, "no event came"), (1, "1 event came, too"), (2, "2 events came, too few")])
def test_an_answer_of_too_few_events_says_how_many_came(count: int, said: str) -> None:
    look = replace(made_look(FIRST), variant=Variant("first", is_probe=False))
    found = hop(Evidence("", {"first": replace(look, ticks=look.ticks[:count])}))
    assert found.verdict.name == "not_a_stream" and found.verdict.sentence.startswith(said)
    assert "tick" not in found.verdict.sentence


def test_requests_that_were_refused_are_a_note_for_nothing_is_known_of_them() -> None:
    refused = Look(variant=FLOW["post"], status=503, ended="length")
    found = hop(made_evidence(nothing, {"post": refused}))
    assert found.verdict.name == "streams"
    (note,) = [note for note in found.notes if "503" in note]
    assert "post" in note


def test_a_going_that_nobody_could_be_asked_of_is_told_so() -> None:
    unasked = made_look(FLOW["leave"], left_noticed=None, left_was_asked=False)
    found = hop(made_evidence(nothing, {"leave": unasked}))
    assert "the app could not be asked whether it was told that a client had left" in found.notes


def test_what_the_probe_ignored_of_the_url_is_a_note() -> None:
    evidence = made_evidence(hello={"clock": 1.0, "ignored": ["token", "uid"]})
    assert any(note.endswith("which it ignored: token, uid") for note in hop(evidence).notes)
    for nothing_of_it in ({}, {"ignored": "token"}, {"ignored": []}):
        assert not hop(made_evidence(hello=nothing_of_it)).notes


def test_events_that_are_no_ticks_are_no_stream_of_the_probe() -> None:
    look = replace(made_look(FIRST), ticks=(), strangers=16)
    found = hop(Evidence("http://127.0.0.1/probe", {"first": look}))
    assert found.verdict.name == "not_a_stream"
    assert "16 events came, and none is a tick" in found.verdict.sentence


@pytest.mark.parametrize("ended", ["left", "final_chunk"])
def test_an_ordinary_endpoint_without_end_is_left_and_not_called_cut(ended: str) -> None:
    endless = Variant("first", is_probe=False)
    look = replace(made_look(FIRST), variant=endless, is_whole=ended != "left", ended=ended)
    assert shape_of(look).kind == "streams"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "true", '"1"', "null", "[]"])
@pytest.mark.parametrize("name", ["n", "due_ms", "sent_ms"])
def test_what_is_no_number_makes_no_tick(name: str, number: str) -> None:
    fields = {"n": "1", "due_ms": "100.0", "sent_ms": "100.2", name: number}
    assert ticks.Tick.parse("{" + ", ".join(f'"{key}": {value}' for key, value in fields.items()) + "}") is None


def test_what_is_nested_for_ever_makes_no_tick() -> None:
    assert ticks.Tick.parse("[" * 100_000) is None


@pytest.mark.parametrize("numbers", [[0, 2, 4], [0, 1, 1, 2], [1, 0, 2]])
def test_ticks_that_are_lost_doubled_or_out_of_order_are_no_healthy_stream(numbers: list[int]) -> None:
    whole_look = made_look(FIRST)
    others = whole_look.ticks[len(numbers) :]
    altered = [replace(tick, number=n) for tick, n in zip(whole_look.ticks, numbers)]
    found = hop(made_evidence(nothing, {"first": replace(whole_look, ticks=(*altered, *others[1:]))}))
    assert found.verdict.name == "truncated"


def test_bytes_that_are_no_sound_answer_are_told_by_what_is_wrong_with_them() -> None:
    look = replace(made_look(FIRST), is_whole=False, ended="malformed", error="expected the size of a chunk, got b'x'")
    found = hop(Evidence("http://127.0.0.1/probe", {"first": look}))
    assert found.verdict.name == "truncated" and "the size of a chunk" in found.verdict.sentence


# Ordinary endpoints, whose events carry no stamps.


def events(interval: float, count: int = 150, at_a_time: int = 1, pause: float = 0.0, noise: float = 0.002) -> Look:
    """Return a look at events so many seconds apart, of which so many come at a time; a pause is after the half."""
    variant = Variant("first", interval_ms=1, count=count)
    rng = random.Random(f"{interval} {noise}")
    due = [(n // at_a_time + 1) * at_a_time * interval + (pause if n > count / 2 else 0.0) for n in range(count)]
    late = {at: rng.random() * noise for at in due}
    came = sorted(at + late[at] for at in due)
    look = made_look(variant, lambda sent, end: [*came, came[-1]], noise=0.0)
    return replace(look, connect=0.003, queued=None)


@pytest.mark.parametrize("noise", [0.0005, 0.004, 0.012])
@pytest.mark.parametrize("pause", [0.0, 2.0])
@pytest.mark.parametrize("interval", [0.001, 0.003, 0.005, 0.008, 0.01, 0.011, 0.012, 0.013, 0.02, 0.05])
def test_an_endpoint_that_streams_does_so_at_every_pace(interval: float, pause: float, noise: float) -> None:
    if interval * 150 < pause / 10:
        pytest.skip("more than that comes in one read: nothing tells it from what waited")
    found = hop(as_endpoint(events(interval, pause=pause, noise=noise)))
    assert found.verdict.name == "streams", found.verdict


@pytest.mark.parametrize("apart, verdict", [(0.0, "held_to_end"), (0.00005, "held_to_end"), (0.003, "streams")])
def test_what_comes_at_the_end_was_held_unless_it_takes_its_time(apart: float, verdict: str) -> None:
    """Of a view that thinks for long, and then sends fast, nothing was held."""
    look = made_look(FIRST)
    count = 100
    ticks = [replace(look.ticks[1], number=n, came=5.0 + n * apart) for n in range(count)]
    late = replace(look, ticks=tuple(ticks), ended_at=5.0 + count * apart)
    assert hop(as_endpoint(late)).verdict.name == verdict


@pytest.mark.parametrize("noise", [0.0005, 0.004, 0.012])
@pytest.mark.parametrize("interval, at_a_time", [(0.003, 50), (0.01, 8), (0.01, 20), (0.025, 4), (0.05, 3), (0.1, 10)])
def test_an_endpoint_that_comes_in_blocks_is_told_at_every_pace(interval: float, at_a_time: int, noise: float) -> None:
    found = hop(as_endpoint(events(interval, at_a_time=at_a_time, noise=noise)))
    assert found.verdict.name == "bursts_by_size" and found.evidence.shape.ticks == at_a_time
    assert "-" not in found.verdict.sentence and "late" not in found.verdict.sentence
    assert Diagnosis((found,)).as_json()["hops"][0]["delay_ms"] == {"median": None, "max": None}


@pytest.mark.parametrize("count", [3, 4, 6])
def test_the_end_that_comes_with_the_last_of_a_few_events_has_waited_for_nothing(count: int) -> None:
    assert hop(as_endpoint(events(0.6, count=count))).verdict.name == "streams"


def test_an_endpoint_that_a_browser_gets_compressed_and_held_is_told() -> None:
    prompt, held = as_endpoint(made_look(FIRST)), as_endpoint(made_look(FIRST, whole, coding="gzip"))
    browser = replace(held.first, variant=replace(held.first.variant, name="browser"))
    found = hop(replace(prompt, looks={**prompt.looks, "browser": browser}))
    assert (found.verdict.name, found.causes[0].name) == ("held_to_end", "compression")


def test_a_view_that_streams_one_hop_further_in_is_innocent_whatever_else_was_asked() -> None:
    held = as_endpoint(made_look(FIRST, whole), "127.0.0.1:1", "nginx")
    inner = as_endpoint(made_look(FIRST), "127.0.0.1:2")
    for more in ((), (made_evidence(),), (made_evidence(buffer(4096)),)):
        outer, view, *_ = judge([held, inner, *more])
        assert [cause.name for cause in outer.causes] == ["proxy_buffering"]
        assert "nginx holds it" in outer.causes[0].evidence and "proxy_buffering off" in outer.causes[0].cure
        assert view.verdict.name == "streams"


def test_a_view_that_holds_at_both_hops_holds_at_the_inner_one() -> None:
    held = made_look(FIRST, whole)
    outer, inner, _ = judge([as_endpoint(held, "a"), as_endpoint(held, "b"), replace(made_evidence(), url="http://b/")])
    assert outer.verdict.is_inherited
    assert [cause.name for cause in inner.causes] == ["late_upstream_reader", "joined_body"]


def test_an_endpoint_that_is_cut_by_a_hop_is_told_by_the_one_further_in() -> None:
    part = replace(made_look(FIRST), is_whole=False, ended="close")
    outer, inner = judge([as_endpoint(part, "a"), as_endpoint(made_look(FIRST), "b")])
    assert (outer.verdict.name, inner.verdict.name) == ("truncated", "streams")
    assert "one hop further in" in outer.causes[0].evidence


def test_a_probe_at_another_place_leaves_the_hop_between_in_doubt() -> None:
    held = as_endpoint(made_look(FIRST, whole), "outer.example")
    found, _ = judge([held, made_evidence()])
    assert found.causes[0].name == "proxy_buffering" and "a hop between may hold" in found.causes[0].evidence
    assert any("at another place than this" in note for note in found.notes)
    same, _ = judge([as_endpoint(made_look(FIRST, whole)), made_evidence()])
    assert same.causes[0].name == "late_upstream_reader" and not same.notes


def test_an_endpoint_is_not_blamed_for_what_the_probe_beside_it_shows_too() -> None:
    found, probe = judge([as_endpoint(made_look(FIRST, whole)), made_evidence(buffer(4096))])
    assert found.verdict.is_inherited and probe.verdict.name == "bursts_by_size"


# What a hop does beyond what the one behind it does.


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (first_block(16384), first_block(1024)),
        (newest(2), newest(1)),
        (batch(12), batch(3)),
        (clock(1.0), clock(0.25)),
        (first_seconds(2.0), first_seconds(0.8)),
    ],
)
def test_a_hop_that_does_more_of_the_same_is_named_too(ours: Hold, theirs: Hold) -> None:
    hops = judge([made_evidence(ours), made_evidence(theirs), made_evidence()])
    assert Diagnosis(hops).offenders == (0, 1)
    assert hops[0].verdict.name == hops[1].verdict.name


@pytest.mark.parametrize("ours, theirs, offenders", [(0.5, 1.2, (0, 1)), (1.2, 1.2, (1,)), (1.25, 1.2, (1,))])
def test_a_hop_that_cuts_sooner_than_the_one_behind_is_named_too(
    ours: float, theirs: float, offenders: tuple[int, ...]
) -> None:
    def cut_at(seconds: float) -> Evidence:
        return Evidence("", {"first": cut(FIRST, seconds), "again": cut(CUT[0], seconds)})

    assert Diagnosis(judge([cut_at(ours), cut_at(theirs), made_evidence()])).offenders == offenders


@pytest.mark.parametrize("ours, offenders", [(0.9, (0, 1)), (3.0, (1,)), (3.1, (1,))])
def test_a_hop_that_is_sooner_tired_of_a_silence_is_named_too(ours: float, offenders: tuple[int, ...]) -> None:
    def quiet(seconds: float) -> Evidence:
        return made_evidence(nothing, {"silence": cut(silence(5), 0.2 + seconds)})

    assert Diagnosis(judge([quiet(ours), quiet(3.0), made_evidence()])).offenders == offenders


def further(hold: Hold, seconds: float) -> Hold:
    """The same, so many seconds further away."""
    return lambda sent, end: [at + seconds for at in hold(sent, end)]


@pytest.mark.parametrize("hold", [buffer(512), buffer(4096), clock(0.5), batch(4), newest(), first_block(1000), whole])
@pytest.mark.parametrize("noise", NOISES)
def test_a_hop_that_is_only_far_away_is_not_accused_of_what_is_held_behind_it(hold: Hold, noise: float) -> None:
    outer, inner = judge([made_evidence(further(hold, 0.15), noise=noise), made_evidence(hold)])
    assert outer.verdict.is_inherited, outer.verdict
    assert any("ms away" in note for note in outer.notes)
    assert inner.verdict.name != "streams" and not inner.notes


def test_what_a_timer_adds_is_told_without_the_distance_behind_it() -> None:
    outer, inner = judge([made_evidence(further(clock(0.5), 0.3)), made_evidence(away(0.3))])
    assert inner.verdict.name == "streams"
    assert outer.verdict.seconds == pytest.approx(0.5, rel=0.2)


# What neither waits for an amount nor for a time of its own.


def pauses(seconds: float) -> Hold:
    """Passes on what it has when nothing more has come for so many seconds."""

    def hold(sent: Any, end: float) -> list[float]:
        came, due = [], end
        for n in reversed(range(len(sent))):
            following = sent[n + 1][0] if n + 1 < len(sent) else end
            due = sent[n][0] + seconds if following - sent[n][0] > seconds else due
            came.append(due)
        return came[::-1]

    return hold


def test_what_waits_for_a_pause_holds_what_is_dense_alone() -> None:
    found = hop(made_evidence(pauses(0.15)))
    assert found.verdict.name == "bursts_by_time" and "after a pause of 15" in found.verdict.sentence
    assert [cause.name for cause in found.causes] == ["proxy_buffering"]


def uneven(seconds: float, seed: int = 0) -> Hold:
    """Delays each tick by up to so many seconds, and lets none overtake another."""

    def hold(sent: Any, end: float) -> list[float]:
        rng, came = random.Random(f"{seed} {len(sent)} {end}"), [0.0]
        for at, _ in sent:
            came.append(max(came[-1], at + rng.random() * seconds))
        return came[1:]

    return hold


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("seconds", [0.1, 0.15, 0.2])
def test_an_uneven_way_is_no_timer(seconds: float, seed: int) -> None:
    found = hop(made_evidence(uneven(seconds, seed)))
    assert found.verdict.name == "streams", found.verdict


def rate(bytes_per_second: float) -> Hold:
    def hold(sent: Any, end: float) -> list[float]:
        came = [0.0]
        for at, size in sent:
            came.append(max(came[-1], at) + size / bytes_per_second)
        return came[1:]

    return hold


def slow_reader(seconds: float) -> Hold:
    return lambda sent, end: rate(1 / seconds)([(at, 1) for at, _ in sent], end)


@pytest.mark.parametrize("noise", (0.002, 0.02))
@pytest.mark.parametrize("hold", [rate(400), rate(450), slow_reader(0.15), slow_reader(0.3)])
def test_a_limit_on_the_rate_is_told_by_delays_that_grow(hold: Hold, noise: float) -> None:
    found = hop(made_evidence(hold, noise=noise))
    assert "the rate is limited" in found.verdict.sentence
    assert [cause.name for cause in found.causes] == ["proxy_buffering"] and "limit_rate" in found.causes[0].cure
    assert found.causes[0].confidence < 0.5


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.5])
def test_what_holds_the_first_seconds_is_told_from_what_holds_the_first_bytes(seconds: float) -> None:
    found = hop(made_evidence(first_seconds(seconds)))
    assert found.verdict.name == "headers_late" and "nothing came in the first" in found.verdict.sentence
    assert found.evidence.first_block_seconds == pytest.approx(seconds, abs=0.1)
    assert not made_evidence(first_block(1000)).first_block_seconds


def test_what_is_cut_by_a_hop_that_also_holds_is_said() -> None:
    hold = buffer(512)
    cuts = {v.name: cut(v, 2.0, hold=hold) for v in HELD if v.name in ("long", "pad")}
    outer, inner = judge([made_evidence(hold, cuts), made_evidence(hold)])
    assert (outer.verdict.name, outer.causes[0].name) == ("cut_by_duration", "duration_limit")
    assert inner.verdict.name == "bursts_by_size"
    too_long = {name: replace(look, ended="timeout") for name, look in cuts.items()}
    assert not made_evidence(hold, too_long).cut_while_held  # it is the doctor who went
    alone = hop(made_evidence(hold, cuts))
    assert alone.verdict.name == "bursts_by_size"
    assert any("were cut after 2.0" in note and "long, pad" in note for note in alone.notes)
