"""Which hop of several is at fault: what each adds to the one behind it. Pure."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Callable, Mapping, Sequence

from flaskstream.doctor.causes import causes_of
from flaskstream.doctor.diagnosis import Hop
from flaskstream.doctor.endpoint_causes import causes_of_endpoint, is_beside
from flaskstream.doctor.evidence import Evidence, is_same
from flaskstream.doctor.experiments import AGAIN
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
    is_probe, verdict = evidence.first.variant.is_probe, verdict_of(evidence)
    probe = next((other for other in inner if other.first.variant.is_probe), None)
    endpoint = next((other for other in inner if not other.first.variant.is_probe), None)
    behind = probe if is_probe or endpoint is None else endpoint
    if behind is not None and verdict.name != "streams":
        verdict = _added_to(evidence, verdict, behind)
    if is_probe:
        return Hop(evidence, verdict, causes_of(evidence, verdict, behind), notes_of(evidence, behind))
    causes = causes_of_endpoint(evidence, verdict, probe, endpoint)
    elsewhere = _elsewhere(evidence, probe) if endpoint is None else ()
    return Hop(evidence, verdict, causes, (*notes_of(evidence), *elsewhere))


def _elsewhere(endpoint: Evidence, probe: Evidence | None) -> tuple[str, ...]:
    if probe is None or is_beside(endpoint, probe):
        return ()
    return (f"the probe was asked at another place than this, {probe.url}: a hop between them is not seen by it",)


def _added_to(evidence: Evidence, verdict: Verdict, behind: Evidence) -> Verdict:
    """Return the verdict on what a hop adds to the one behind it."""
    if _is_inherited(evidence, verdict, behind):
        return _cut_besides(evidence, behind) or _inherited(verdict)
    seconds = _added_seconds(evidence, behind)
    if not seconds:
        return verdict
    sentence = f"beyond what the hop behind holds, what waits is passed on after {seconds * 1000:.0f} ms"
    return Verdict("bursts_by_time", sentence, verdict.look, seconds)


def _inherited(verdict: Verdict) -> Verdict:
    sentence = f"adds nothing to what comes from behind ({verdict.sentence})"
    return Verdict("streams", sentence, verdict.look, is_inherited=True)


def _cut_besides(evidence: Evidence, behind: Evidence) -> Verdict | None:
    """Return the verdict on a hop that cuts what the one behind holds, and lets end."""
    names = [name for name in evidence.cut_while_held if behind.held(name)]
    ages = [evidence.looks[name].ended_at for name in names]
    if not ages:
        return None
    is_age = len(ages) > 1 and evidence.is_same_age(min(ages), max(ages))
    told = f"cut after {min(ages):.1f} s, and not at the hop behind: {', '.join(names)}"
    return Verdict("cut_by_duration" if is_age else "truncated", told, names[0])


_CUTS = ("cut_by_duration", "truncated")


def _is_inherited(evidence: Evidence, verdict: Verdict, behind: Evidence) -> bool:
    """Tell whether the hop behind shows the same, and as much of it; or holds every tick for as long."""
    behind_it = verdict_of(behind)
    if verdict.name in _CUTS and behind_it.name in _CUTS:
        return not _is_sooner(evidence, _cut_after(evidence, verdict), _cut_after(behind, behind_it))
    if not evidence.first.variant.is_probe:
        return _is_the_probes_or_endpoints(evidence, verdict, behind, behind_it)
    if evidence.held("first") and behind.held("first") and _adds_no_delay(evidence, behind):
        return True
    return _is_as_much_of_it(evidence, verdict, behind, behind_it)


def _is_the_probes_or_endpoints(evidence: Evidence, verdict: Verdict, behind: Evidence, behind_it: Verdict) -> bool:
    """Tell whether an ordinary endpoint, whose delays are not known, is held as the probe, or as it is further in."""
    if behind.first.variant.is_probe:
        return (evidence.held("first") and behind.held("first")) or verdict.name == behind_it.name
    is_as_many = is_same(evidence.shape.ticks or 1, behind.shape.ticks or 1)
    return is_as_many and _is_as_much_of_it(evidence, verdict, behind, behind_it)


def _is_as_much_of_it(evidence: Evidence, verdict: Verdict, behind: Evidence, behind_it: Verdict) -> bool:
    """Tell whether two verdicts of the same name are also the same in their figures."""
    if behind_it.name != verdict.name:
        return False
    if verdict.name == "cut_by_silence":
        return not _is_sooner(evidence, _quiet(evidence, verdict), _quiet(behind, behind_it))
    if verdict.name == "bursts_by_size" and _added_seconds(evidence, behind):
        return False
    return all(is_same(of(evidence) or 1, of(behind) or 1) for of in _FIGURES.get(verdict.name, ()))


_FIGURES: Mapping[str, Sequence[Callable[[Evidence], float]]] = {
    "bursts_by_size": (attrgetter("buffer_bytes"), attrgetter("batch_ticks")),
    "bursts_by_time": (attrgetter("timer"), attrgetter("pause")),
    "one_event_late": (attrgetter("late_by"),),
    "headers_late": (attrgetter("first_block_bytes"), attrgetter("first_block_seconds")),
}
"""What tells how much a hop does of what its verdict says."""


def _is_sooner(evidence: Evidence, ours: float, theirs: float) -> bool:
    """Tell whether this hop cuts before the one behind it would; 0: it is not known when."""
    return 0 < ours < theirs and not evidence.is_same_age(ours, theirs)


def _cut_after(evidence: Evidence, verdict: Verdict) -> float:
    """Return the age, in seconds, at which a hop cuts every stream; 0: it is another one each time."""
    is_always = evidence.cut_alike(verdict.look, AGAIN.get(verdict.look, ""))
    return evidence.looks[verdict.look].ended_at if is_always else 0.0


def _quiet(evidence: Evidence, verdict: Verdict) -> float:
    """Return the silence, in seconds, after which a hop cuts a stream."""
    return evidence.looks[verdict.look].silences[-1]


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
