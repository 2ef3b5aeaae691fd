"""Which hop of several is at fault: what each adds to the one behind it. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from flaskstream.doctor.causes import causes_of
from flaskstream.doctor.diagnosis import Hop
from flaskstream.doctor.endpoint_causes import causes_of_endpoint
from flaskstream.doctor.evidence import Evidence, is_same
from flaskstream.doctor.notes import notes_of
from flaskstream.doctor.shapes import Shape
from flaskstream.doctor.verdicts import Verdict, verdict_of

SLOW_TO_NOTICE = 1.5
"""Seconds after which a client's going has become expensive: an answer is paid for by the token."""


STALLED = "source_stalled"


def judge(seen: Sequence[Evidence]) -> tuple[Hop, ...]:
    """Return a hop for each evidence, outermost first: what it does, beyond what the one behind it does already."""
    return _at_the_source([_hop(evidence, seen[n + 1 :]) for n, evidence in enumerate(seen)])


def _at_the_source(hops: Sequence[Hop]) -> tuple[Hop, ...]:
    """A source that stalls now and then is the last hop's fault, through whichever hop it was seen.

    While an endpoint streams it is the endpoint's.
    """
    seen = (hop for hop in reversed(hops) if hop.verdict.name == STALLED and hop.evidence.first.variant.is_probe)
    stalled = next(seen, None)
    if stalled is None or not hops[-1].evidence.first.is_answer:
        return tuple(hops)
    adds = _inherited(stalled.verdict)
    *outer, last = hops
    return (
        *(replace(hop, verdict=adds, causes=()) if hop.verdict.name == STALLED else hop for hop in outer),
        replace(last, verdict=stalled.verdict, causes=stalled.causes) if last.verdict.name == "streams" else last,
    )


def _hop(evidence: Evidence, inner: Sequence[Evidence]) -> Hop:
    verdict, behind = verdict_of(evidence), inner[0] if inner else None
    if behind is not None and verdict.name != "streams":
        verdict = _added_to(evidence, verdict, behind)
    find = causes_of if evidence.first.variant.is_probe else causes_of_endpoint
    return Hop(evidence, verdict, find(evidence, verdict, behind), notes_of(evidence))


def _added_to(evidence: Evidence, verdict: Verdict, behind: Evidence) -> Verdict:
    """Return the verdict on what a hop adds to the one behind it."""
    if _is_inherited(evidence, verdict, behind):
        return _inherited(verdict)
    seconds = _added_seconds(evidence, behind)
    if not seconds:
        return verdict
    sentence = f"beyond what the hop behind holds, what waits is passed on after {seconds * 1000:.0f} ms"
    return Verdict("bursts_by_time", sentence, verdict.look, seconds)


def _inherited(verdict: Verdict) -> Verdict:
    sentence = f"adds nothing to what comes from behind ({verdict.sentence})"
    return Verdict("streams", sentence, verdict.look, is_inherited=True)


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
        return is_same(evidence.buffer_bytes or 1, behind.buffer_bytes or 1) and not _added_seconds(evidence, behind)
    if verdict.name == "bursts_by_time":
        return is_same(evidence.timer or 1, behind.timer or 1)
    return True


SAME_DELAY = 1.3
NOISE_SECONDS = 0.06
"""A hop in which the ticks take no longer than this factor, and this, adds nothing to the one behind it."""


def _adds_no_delay(evidence: Evidence, behind: Evidence) -> bool:
    pairs = _pairs(evidence, behind)
    return all(ours.longest <= theirs.longest * SAME_DELAY + NOISE_SECONDS for ours, theirs in pairs)


def _added_seconds(evidence: Evidence, behind: Evidence) -> float:
    """Return the time that the ticks take longer here, if it is the same in all looks that can show it; else 0."""
    pairs = [
        (ours, theirs) for ours, theirs in _pairs(evidence, behind) if theirs.kind not in ("streams", "held_to_end")
    ]
    added = [ours.longest - theirs.longest for ours, theirs in pairs]
    if len(added) < 2 or min(added) < 2 * NOISE_SECONDS or not is_same(min(added), max(added)):
        return 0.0
    return max(added)


def _pairs(evidence: Evidence, behind: Evidence) -> list[tuple[Shape, Shape]]:
    """Return the shapes of the looks that were the same at both."""
    return [
        (evidence.shapes[name], behind.shapes[name])
        for name, look in evidence.looks.items()
        if name in behind.looks and behind.looks[name].variant == look.variant
    ]
