"""What can be chosen on the page: the broken mode as it is, or one mistake alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from flaskstream.lab import signatures
from flaskstream.lab.faults import Fault, active_faults
from flaskstream.lab.plan import Plan

USUAL = "broken"
"""The choice of the broken mode's usual mistakes, all at once; the others are named as their fault."""

READERS_TO_SHOW_A_QUEUE = 2

PACE_TO_WATCH = (80, 100)
"""Tokens, and milliseconds between two: what is quickly measured is over before anybody has seen it."""


@dataclass(frozen=True)
class Choice:
    """One of them.

    Attributes:
        name: `USUAL`, or that of a fault.
        sentence: what goes wrong.
        met: where it is met in the wild.
        cure: what to do instead.
        readers: how many have to read at once for it to show.
        script: what the model is told beside the pace, as in a query string.
        seconds: how long the stream has to be at least.
    """

    name: str
    sentence: str
    met: str
    cure: str
    readers: int = 1
    script: str = ""
    seconds: float = 0.0


def choices(plan: Plan) -> tuple[Choice, ...]:
    """Return the choices: the usual mistakes first, then each that the plan names."""
    usual = Choice(
        USUAL,
        f"The broken mode: {', '.join(fault.name for fault in active_faults(()))}, all at once.",
        "a view as it is written first, under gunicorn as it is started first",
        "each mistake by itself, one after the other: choose it above",
    )
    return (usual, *map(_choice, plan.chosen_faults))


def pace(plan: Plan) -> tuple[int, int]:
    """Return how many tokens the model says, unless the page tells it otherwise, and the milliseconds between them."""
    is_told = (plan.tokens, plan.interval_ms) != (Plan.tokens, Plan.interval_ms)
    return (plan.tokens, plan.interval_ms) if is_told else PACE_TO_WATCH


def first_choice(plan: Plan) -> str:
    """Return which of them to begin with: the first that was asked for by name."""
    return plan.chosen_faults[0].name if plan.faults and plan.chosen_faults else USUAL


def _choice(fault: Fault) -> Choice:
    queues = fault.signature is signatures.one_after_another
    return Choice(
        fault.name,
        fault.sentence,
        fault.met,
        fault.cure,
        READERS_TO_SHOW_A_QUEUE if queues else 1,
        fault.scenario.script,
        fault.scenario.seconds,
    )
