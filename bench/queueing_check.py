"""Is what the simulation computes for a second true? The same 300 streams, with every token as a job of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Sequence

from bench.fleet import Terms, Worker
from bench.fleet_events import Simulation, seeded
from bench.fleet_look import LOOK_SECONDS
from bench.percentile import percentile
from bench.queueing import exact_waits

STREAMS, MACHINES = 300, 3
UTILISATIONS = (0.3, 0.5, 0.7, 0.85)
_START_TOKENS = 45
"""What the beginning of a stream costs, in tokens."""


@dataclass(frozen=True)
class Checked:
    """Waits in milliseconds: the mean of all tokens, and the mean of what one in a hundred of a second exceeds.

    Attributes:
        utilisation: of a worker, by tokens alone.
        computed, computed_p99: by `bench.queueing.Backlog`.
        exact, exact_p99: job by job, the tokens of a stream at random distances.
        even, even_p99: the same, at even distances.
    """

    utilisation: float
    computed: float
    exact: float
    even: float
    computed_p99: float
    exact_p99: float
    even_p99: float


def check(utilisation: float, seed: int, seconds: float = 60.0) -> Checked:
    """Compare at this utilisation; a deploy and a loss would only change which streams there are."""
    cost = utilisation * MACHINES / STREAMS / Terms.rate
    terms = Terms(STREAMS, MACHINES, 1, cost=cost, start_cost=_START_TOKENS * cost, steady=seconds, settle=0)
    with seeded(seed):
        done = Simulation(terms, keep=True).run(deploys=False, loses=False)
        found = {even: _exact(done, terms, even) for even in (False, True)}
    delays = [delay for one in done.delays.values() for delay in one]
    tokens = [delay.jobs[0][0] for delay in delays]
    mean = sum(came * delay.mean for came, delay in zip(tokens, delays)) / sum(tokens)
    p99 = sum(delay.p99() for delay in delays) / len(delays)
    computed, exact, even = (mean, p99), found[False], found[True]
    return Checked(
        utilisation,
        *(1000 * one[0] for one in (computed, exact, even)),
        *(1000 * one[1] for one in (computed, exact, even)),
    )


def _exact(done: Simulation, terms: Terms, even: bool) -> tuple[float, float]:
    """Return the mean wait of all tokens, and the mean over all seconds and workers of their p99."""
    waits: list[float] = []
    p99s: list[float] = []
    for worker, looks in done.delays.items():
        seconds = _by_second(done, worker, terms, even)
        for second in range(len(looks)):
            came = sorted(seconds.get(second, ()))
            waits += came
            p99s.append(percentile(came, 0.99) if came else 0.0)
    return sum(waits) / len(waits), sum(p99s) / len(p99s)


def _by_second(done: Simulation, worker: Worker, terms: Terms, even: bool) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for at, wait in exact_waits(done.stays[worker], terms.cost, terms.start_cost, even):
        found.setdefault(math.floor(at / LOOK_SECONDS), []).append(wait)
    return found


def check_all(seed: int, utilisations: Sequence[float] = UTILISATIONS) -> list[Checked]:
    return [check(one, seed) for one in utilisations]
