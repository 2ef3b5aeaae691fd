"""Examine hops: take the looks that the table of experiments asks for, and have them judged."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Mapping, Sequence

from flaskstream.doctor.chain import judge
from flaskstream.doctor.diagnosis import Diagnosis
from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.experiments import (
    AGAIN,
    BESIDE,
    ENDPOINT,
    ENDPOINT_OF_BROWSERS,
    FIRST,
    STAGES,
    UNANSWERED,
    is_offered,
    may_run_together,
    possible,
    silence,
)
from flaskstream.doctor.fingerprints import product_of
from flaskstream.doctor.look import Looker, longest_seconds
from flaskstream.doctor.looks import Look, Variant
from flaskstream.doctor.shapes import shape_of

Progress = Callable[[str], None]

WARM_SECONDS = 0.5
"""A first tick that comes later than this may have waited for the start of a worker, which others do not wait for."""

HOP_SECONDS = 30.0
"""A hop takes no longer, but for a silence that is asked for: what does not surely fit into that is left out."""


def examine(
    lookers: Sequence[Looker], silence_seconds: float = 0.0, progress: Progress = lambda line: None
) -> Diagnosis:
    """Look at each hop and return what is the matter.

    Args:
        lookers: one for each hop, outermost first.
        silence_seconds: how long a silence each hop must survive; 0: that is not tried.
        progress: called with what is being done.
    """
    started_at = time.monotonic()
    behind = [*lookers[1:], None]
    seen = [examine_hop(looker, silence_seconds, progress, inner) for looker, inner in zip(lookers, behind)]
    return Diagnosis(judge(seen), time.monotonic() - started_at)


def examine_hop(
    looker: Looker,
    silence_seconds: float,
    progress: Progress,
    behind: Looker | None = None,
    seconds: float = HOP_SECONDS,
) -> Evidence:
    """Take all looks at one hop, as far as there is time.

    At an ordinary endpoint also one of the probe beside it, where that comes behind.
    """
    if not looker.is_probe:
        return _examine_endpoint(looker, behind if behind is not None and behind.is_probe else None, progress)
    ends_at = time.monotonic() + seconds
    progress(f"{looker.url}: {FIRST.count} ticks, one every {FIRST.interval_ms} ms")
    first, again = looker.look(FIRST), {}
    if _is_doubtful(first):
        progress(f"{looker.url}: the same again, to be sure")
        again["first"] = looker.look(FIRST)
        first = _better(first, again["first"])
    evidence = _evidence(looker, {"first": first, **_cut_twice({"first": first}, again)})
    for stage in STAGES:
        if stage.applies(evidence):
            variants = possible(stage.variants, looker.url)
            for group in [variants] if may_run_together(evidence) else [(variant,) for variant in variants]:
                evidence = _with_looks(evidence, looker, group, ends_at, progress)
    if silence_seconds and evidence.kind("first") not in UNANSWERED:
        variant = silence(silence_seconds)
        progress(f"{looker.url}: {silence_seconds:g} s of silence")
        evidence = _evidence(looker, {**evidence.looks, "silence": looker.look(variant)}, evidence.left_out)
    return evidence


def _with_looks(
    evidence: Evidence, looker: Looker, variants: Sequence[Variant], ends_at: float, progress: Progress
) -> Evidence:
    """Return the evidence with these looks, taken together, as far as there is time for them."""
    left_seconds = ends_at - time.monotonic()
    fitting = tuple(variant for variant in variants if longest_seconds(variant) <= left_seconds)
    again: dict[str, Look] = {}
    left_out = tuple(variant.name for variant in variants if variant not in fitting)
    progress(f"{looker.url}: {', '.join(variant.name for variant in fitting) or 'no time for more'}")

    def look(variant: Variant) -> Look:
        """Look; and again, at once, while the others go on, where that is to be sure of."""
        seen = looker.look(variant)
        is_sure = not is_offered(seen) or not _looks_held(evidence, seen)
        is_late = time.monotonic() + longest_seconds(variant) > ends_at
        if is_sure or is_late:
            return seen
        again[variant.name] = looker.look(variant)
        return _better(seen, again[variant.name])

    looks = looker.look_all(fitting, look) if fitting else {}
    taken = {name: look for name, look in looks.items() if is_offered(look)}
    twice = _cut_twice(taken, again)
    return _evidence(looker, {**evidence.looks, **taken, **twice}, (*evidence.left_out, *left_out))


def _cut_twice(looks: Mapping[str, Look], again: Mapping[str, Look]) -> dict[str, Look]:
    """Return the second looks at what was cut both times, by the names of the experiments that would repeat those."""
    cut = {name for name in AGAIN if name in again and shape_of(looks[name]).kind == "cut"}
    return {AGAIN[name]: again[name] for name in cut if shape_of(again[name]).kind == "cut"}


def _examine_endpoint(looker: Looker, probe: Looker | None, progress: Progress) -> Evidence:
    progress(f"{looker.url}: as it is")
    evidence = _evidence(looker, {"first": looker.look(ENDPOINT)})
    if not evidence.streamed("first"):
        return evidence
    if probe is None:
        progress(f"{looker.url}: as a browser asks")
        return _evidence(looker, {**evidence.looks, "browser": looker.look(ENDPOINT_OF_BROWSERS)})
    progress(f"{looker.url}: as a browser asks, and the probe beside it")
    seen = _beside(looker, probe, evidence)
    is_suspect = seen.kept_waiting or seen.kind("beside") == "source_stalled"
    return _beside(looker, probe, evidence) if is_suspect else seen


def _beside(looker: Looker, probe: Looker, evidence: Evidence) -> Evidence:
    """Ask the endpoint as a browser does, and the probe when its first event is there."""
    pool = ThreadPoolExecutor(1)
    try:
        streaming = pool.submit(looker.look, ENDPOINT_OF_BROWSERS)
        time.sleep(evidence.first.ticks[0].came)
        beside = probe.look(BESIDE)
        return _evidence(looker, {**evidence.looks, "browser": streaming.result(), "beside": beside})
    finally:
        pool.shutdown(wait=False)  # after Ctrl-C nobody waits for a server


def _evidence(looker: Looker, looks: dict[str, Look], left_out: tuple[str, ...] = ()) -> Evidence:
    first = looks["first"]
    server = str(first.hello.get("server", ""))
    return Evidence(looker.url, looks, product_of(first.headers), server, left_out=left_out)


def _looks_held(evidence: Evidence, look: Look) -> bool:
    """Tell whether a hop that streamed does not in this look: a busy machine may have held it once."""
    if look.variant.at_once > 1:
        both = Evidence("", {"first": evidence.first, look.variant.name: look})
        return both.waited > 0 or both.refused > 0
    shape = shape_of(look.nearer(evidence.distance))
    is_fine = shape.kind in ("streams", "lagged")  # late by the same in each tick: it waited for a worker
    return evidence.streamed("first") and not is_fine and look.variant.leave_after is None


def _is_doubtful(first: Look) -> bool:
    """Tell whether a second look may show something better than the first; one of an app that wakes up is late."""
    is_cold = bool(first.ticks) and first.ticks[0].came > WARM_SECONDS
    return is_cold or shape_of(first).kind not in ("streams", *UNANSWERED)


def _better(look: Look, again: Look) -> Look:
    return again if shape_of(again).kind == "streams" else look
