"""Examine hops: take the looks that the table of experiments asks for, and have them judged."""

from __future__ import annotations

import time
from typing import Callable, Sequence

from flaskstream.doctor.chain import judge
from flaskstream.doctor.diagnosis import Diagnosis
from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.experiments import (
    ENDPOINT,
    ENDPOINT_CODINGS,
    FIRST,
    STAGES,
    is_offered,
    may_run_together,
    possible,
    silence,
)
from flaskstream.doctor.fingerprints import product_of
from flaskstream.doctor.look import Looker
from flaskstream.doctor.looks import Look, Variant
from flaskstream.doctor.shapes import shape_of

Progress = Callable[[str], None]


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
    seen = [examine_hop(looker, silence_seconds, progress) for looker in lookers]
    return Diagnosis(judge(seen), time.monotonic() - started_at)


def examine_hop(looker: Looker, silence_seconds: float, progress: Progress) -> Evidence:
    """Take all looks at one hop."""
    if not looker.is_probe:
        return _examine_endpoint(looker, progress)
    progress(f"{looker.url}: {FIRST.count} ticks, one every {FIRST.interval_ms} ms")
    evidence = _evidence(looker, {"first": _confirmed(looker, FIRST)})
    for stage in STAGES:
        if stage.applies(evidence):
            variants = possible(stage.variants, looker.url)
            progress(f"{looker.url}: {', '.join(variant.name for variant in variants)}")
            looks = looker.look_all(variants, may_run_together(evidence))
            taken = {name: look for name, look in looks.items() if is_offered(look)}
            again = {name: _second(looker, look) for name, look in taken.items() if _looks_held(evidence, look)}
            evidence = _evidence(looker, {**evidence.looks, **taken, **again})
    if silence_seconds and evidence.looks["first"].is_answer:
        variant = silence(silence_seconds)
        progress(f"{looker.url}: {silence_seconds:g} s of silence")
        evidence = _evidence(looker, {**evidence.looks, "silence": looker.look(variant)})
    return evidence


def _examine_endpoint(looker: Looker, progress: Progress) -> Evidence:
    progress(f"{looker.url}: as it is")
    first = looker.look(ENDPOINT)
    looks = {"first": first}
    if shape_of(first).kind == "streams":
        progress(f"{looker.url}: as a browser asks")
        looks.update(looker.look_all(ENDPOINT_CODINGS, together=False))
    return _evidence(looker, looks)


def _evidence(looker: Looker, looks: dict[str, Look]) -> Evidence:
    first = looks["first"]
    return Evidence(looker.url, looks, product_of(first.headers), str(first.hello.get("server", "")))


def _looks_held(evidence: Evidence, look: Look) -> bool:
    """Tell whether a hop that streamed does not in this look: a busy machine may have held it once."""
    if look.variant.at_once > 1:
        return Evidence("", {"first": evidence.first, look.variant.name: look}).waited > 0
    shape = shape_of(look.nearer(evidence.distance))
    is_fine = shape.kind in ("streams", "lagged")  # late by the same in each tick: it waited for a worker
    return evidence.streamed("first") and not is_fine and look.variant.leave_after is None


def _confirmed(looker: Looker, variant: Variant) -> Look:
    look = looker.look(variant)
    if shape_of(look).kind in ("streams", "unreachable", "not_a_stream"):
        return look
    return _second(looker, look)


def _second(looker: Looker, look: Look) -> Look:
    """Look again; return the better one of the two."""
    again = looker.look(look.variant)
    return again if shape_of(again).kind == "streams" else look
