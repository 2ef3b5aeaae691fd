"""How long the doctor takes at a hop, and what it says of hops that play with time: on real sockets."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from made_looks import away, made_look, whole
from raw_probe import Asked, RawProbe

from flaskstream.doctor.chain import judge
from flaskstream.doctor.diagnosis import Hop
from flaskstream.doctor.examine import HOP_SECONDS, examine, examine_hop
from flaskstream.doctor.experiments import FIRST, FLOWING
from flaskstream.doctor.look import SLACK_SECONDS, Looker
from flaskstream.doctor.looks import Look, Variant

URL = "http://example.com/probe"


def examined(play: Any) -> tuple[Hop, float, list[str]]:
    """The hop, how long it took, and what was said meanwhile."""
    said: list[str] = []
    with RawProbe(play) as url:
        diagnosis = examine([Looker(url)], progress=said.append)
    return diagnosis.hops[0], diagnosis.seconds, said


def test_a_hop_that_sends_headers_and_then_nothing_is_given_up_after_one_look() -> None:
    hop, seconds, said = examined(Asked.wait_until_left)
    assert (hop.verdict.name, list(hop.evidence.looks)) == ("not_a_stream", ["first"])
    assert seconds < FIRST.seconds + SLACK_SECONDS + 2 and len(said) == 1
    assert seconds < HOP_SECONDS / 2


@pytest.mark.parametrize("offset_ms", [5000.0, -50_000.0])
def test_a_hop_whose_stamps_cannot_be_is_not_judged(offset_ms: float) -> None:
    def play(asked: Asked) -> None:
        for number in range(asked.count + 1):
            asked.tick(number, offset_ms)
        asked.end()

    hop, _, _ = examined(play)
    assert hop.verdict.name == "not_a_stream" and "which cannot be" in hop.verdict.sentence


def test_an_idle_timeout_shorter_than_the_first_interval_is_told_from_a_limit() -> None:
    patience = 0.09

    def impatient(asked: Asked) -> None:
        asked.tick(0)
        if asked.interval > patience:
            asked.sleep_until(patience)
            return
        for number in range(1, asked.count + 1):
            asked.tick(number)
        asked.end()

    hop, _, _ = examined(impatient)
    assert (hop.verdict.name, hop.causes[0].name) == ("cut_by_silence", "idle_timeout")


class Quick(Looker):
    """A hop that streams, at a tenth of the time that it says, and holds some looks."""

    def __init__(self, *held: str) -> None:
        super().__init__(URL)
        self._held = held
        self.took: list[tuple[str, float, float]] = []

    def look(self, variant: Variant) -> Look:
        began = time.monotonic()
        time.sleep(variant.seconds / 10)
        self.took.append((variant.name, began, time.monotonic()))
        hold = whole if variant.name in self._held else away(0.0)
        return made_look(variant, hold, hello={"clock": began, "worker": "gevent"})


def test_a_look_that_was_held_is_taken_again_while_the_others_go_on() -> None:
    looker = Quick("unmarked")
    seen = examine_hop(looker, 0.0, lambda line: None)
    assert seen.held("unmarked") and seen.streamed("endure")
    (_, again) = [times for name, *times in looker.took if name == "unmarked"]
    ((_, ended),) = [times for name, *times in looker.took if name == "endure"]
    assert again[1] < ended


def test_what_does_not_surely_fit_into_the_time_is_left_out_and_told() -> None:
    said: list[str] = []
    seconds = max(variant.seconds for variant in FLOWING if variant.leave_after is None) + SLACK_SECONDS
    seen = examine_hop(Quick(), 0.0, said.append, seconds=seconds)
    assert seen.streamed("gzip") and seen.left_out == ("leave", "endure")
    assert not said[-1].endswith("endure")
    assert examine_hop(Quick(), 0.0, said.append).left_out == ()


class Cutting(Quick):
    """The same, which cuts whatever goes on for longer than this."""

    seconds = 2.0

    def look(self, variant: Variant) -> Look:
        seen = super().look(variant)
        if variant.seconds <= self.seconds or variant.leave_after is not None:
            return seen
        ticks = tuple(tick for tick in seen.ticks if tick.came < self.seconds)
        return dataclasses.replace(seen, ticks=ticks, ended="close", ended_at=self.seconds, is_whole=False)


def test_a_look_that_was_cut_twice_is_not_taken_a_third_time() -> None:
    looker = Cutting()
    (found,) = judge([examine_hop(looker, 0.0, lambda line: None)])
    assert (found.verdict.name, found.causes[0].name) == ("cut_by_duration", "duration_limit")
    assert sum(name.startswith("endure") for name, *_ in looker.took) == 2
