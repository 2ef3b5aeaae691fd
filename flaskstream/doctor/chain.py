"""Which hop of several is at fault: what each adds to the one behind it. Pure."""

from __future__ import annotations

from typing import Sequence

from flaskstream.doctor.causes import causes_of
from flaskstream.doctor.diagnosis import Hop
from flaskstream.doctor.endpoint_causes import causes_of_endpoint
from flaskstream.doctor.evidence import Evidence, is_same
from flaskstream.doctor.notes import notes_of
from flaskstream.doctor.verdicts import Verdict, verdict_of

SLOW_TO_NOTICE = 1.5
"""Seconds after which a client's going has become expensive: an answer is paid for by the token."""


def judge(seen: Sequence[Evidence]) -> tuple[Hop, ...]:
    """Return a hop for each evidence, outermost first: what it does, beyond what the one behind it does already."""
    return tuple(_hop(evidence, seen[n + 1 :]) for n, evidence in enumerate(seen))


def _hop(evidence: Evidence, inner: Sequence[Evidence]) -> Hop:
    verdict, behind = verdict_of(evidence), inner[0] if inner else None
    if behind is not None and verdict.name != "streams" and _is_inherited(evidence, verdict, behind):
        adds = Verdict("streams", f"adds nothing to what comes from behind ({verdict.sentence})", verdict.look)
        return Hop(evidence, adds, (), notes_of(evidence))
    find = causes_of if evidence.first.variant.is_probe else causes_of_endpoint
    return Hop(evidence, verdict, find(evidence, verdict, behind), notes_of(evidence))


_CUTS = ("cut_by_duration", "truncated")


def _is_inherited(evidence: Evidence, verdict: Verdict, behind: Evidence) -> bool:
    """Tell whether the hop behind shows the same, and as much of it; or holds every tick for as long."""
    behind_it = verdict_of(behind)
    if verdict.name in _CUTS and behind_it.name in _CUTS:
        return True
    if evidence.held("first") and behind.held("first") and _adds_no_delay(evidence, behind):
        return True
    if behind_it.name != verdict.name:
        return False
    if verdict.name == "bursts_by_size":
        return is_same(evidence.buffer_bytes or 1, behind.buffer_bytes or 1)
    if verdict.name == "bursts_by_time":
        return is_same(evidence.timer or 1, behind.timer or 1)
    return True


SAME_DELAY = 1.3
NOISE_SECONDS = 0.06
"""A hop in which the ticks take no longer than this factor, and this, adds nothing to the one behind it."""


def _adds_no_delay(evidence: Evidence, behind: Evidence) -> bool:
    pairs = [
        (evidence.shapes[name], behind.shapes[name])
        for name, look in evidence.looks.items()
        if name in behind.looks and behind.looks[name].variant == look.variant
    ]
    return all(ours.longest <= theirs.longest * SAME_DELAY + NOISE_SECONDS for ours, theirs in pairs)
