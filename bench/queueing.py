"""How long a token waits for its worker: computed for a second at a time, and token by token, which checks the other.

A worker is one server that takes its jobs in the order in which they come. A token is a job of the same cost each time;
so is the beginning of a stream, a longer one. What came from many streams within a second is taken for a Poisson
process: each stream has its own phase, and no two of them know of each other. That is the queue M/G/1, of which
Pollaczek and Khinchine tell how long its jobs wait. What comes in beyond what the worker can do is carried on from
second to second as a backlog, as if it were a fluid.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Iterator, Sequence, Tuple

Jobs = Sequence[Tuple[float, float]]
"""Each kind: how many come in a second, and how many seconds one takes. That of the tokens comes first."""

_NEARLY = 1e-9
_STEPS = 8
"""Into how many the cost of a token is divided, where the distribution of its wait is computed."""

_NORMAL_P99 = 2.576
"""Standard deviations within which 99 % of a normal distribution lie."""


def utilisation(jobs: Jobs) -> float:
    return sum(rate * cost for rate, cost in jobs)


def mean_wait(jobs: Jobs) -> float:
    """Return the mean wait in seconds: half of the second moment of the work, over what is idle."""
    idle = 1 - utilisation(jobs)
    return _variance(jobs) / (2 * idle) if idle > _NEARLY else math.inf


def _variance(jobs: Jobs) -> float:
    return sum(rate * cost * cost for rate, cost in jobs)


def wait_exceeded_by(share: float, jobs: Jobs, most: float) -> float:
    """Return the wait in seconds that this share of the jobs exceeds, or `most` if that is less.

    A wait is the sum of so many remaining times of jobs as a geometric distribution says; what remains of a job is
    uniform up to its cost. Summed up step by step, rounded up.
    """
    step = jobs[0][1] / _STEPS
    kinds = [(rate * step, max(1, round(cost / step))) for rate, cost in jobs if rate]
    reached = [1 - utilisation(jobs)]  # the distribution: at each step
    while reached[-1] < 1 - share and len(reached) * step < most:
        before = len(reached) - 1
        mass = sum(
            part * (reached[before] - (reached[before - steps] if before >= steps else 0.0)) for part, steps in kinds
        )
        reached.append(reached[before] + mass)
    return min(most, (len(reached) - 1) * step)


@dataclass(frozen=True)
class Delay:
    """How long the tokens of some time waited, in seconds, before their own cost.

    Attributes:
        mean: of all of them.
        utilisation: the work that came, for each second of the worker; above 1: more than it can do.
        jobs: what came.
        longest_backlog: how long what was left over from before made them wait, at most.
        most_by_chance: beside it.
    """

    mean: float
    utilisation: float
    jobs: Jobs
    longest_backlog: float
    most_by_chance: float

    def p99(self) -> float:
        """Return what one in a hundred exceeds."""
        return self.longest_backlog + wait_exceeded_by(0.01, self.jobs, self.most_by_chance)


class Backlog:
    """The queue of a worker, from one stretch of time to the next."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def step(self, jobs: Jobs, seconds: float) -> Delay:
        """Take what came in so many seconds; return how long it waited.

        What chance alone heaps up is bounded by what it can heap up in that time: a worker that is full for a second
        is far from the infinite wait which the formula gives to one that is full for ever.
        """
        busy, before = utilisation(jobs), self.seconds
        self.seconds = max(0.0, before + (busy - 1) * seconds)
        spread = math.sqrt(_variance(jobs) * seconds)
        chance = min(mean_wait(jobs), spread * math.sqrt(2 / math.pi))  # the mean of what is normal, without its sign
        return Delay(
            _mean_of_fluid(before, busy - 1, seconds) + chance,
            busy,
            jobs,
            max(before, self.seconds),
            spread * _NORMAL_P99,
        )


def _mean_of_fluid(before: float, drift: float, seconds: float) -> float:
    """Return the mean of `before + drift * t` over the time, while it is above 0."""
    lasts = seconds if before + drift * seconds >= 0 else before / -drift
    return (before + drift * lasts / 2) * lasts / seconds


@dataclass(frozen=True)
class Stay:
    """A stretch of a stream on one worker: from when to when, in seconds, and its tokens a second."""

    begin: float
    end: float
    rate: float


def exact_waits(
    stays: Sequence[Stay], cost: float, start_cost: float, even: bool = False
) -> Iterator[tuple[float, float]]:
    """Yield for each token when it came and how long it waited: every job in its turn, on one worker.

    Args:
        stays: the streams that this worker has had; one that was there from the beginning has no start.
        cost, start_cost: of a token and of a stream's beginning, in seconds.
        even: tokens of a stream come at even distances; else at random ones with the same mean.
    """
    jobs = [(stay.begin, start_cost, False) for stay in stays if stay.begin > 0]
    jobs += [(at, cost, True) for stay in stays for at in _tokens(stay, even)]
    jobs.sort()
    free_at = 0.0
    for at, takes, is_token in jobs:
        begins = max(at, free_at)
        free_at = begins + takes
        if is_token:
            yield at, begins - at


def _tokens(stay: Stay, even: bool) -> list[float]:
    gap, found = 1 / stay.rate, []
    at = stay.begin + (random.uniform(0, gap) if even else random.expovariate(stay.rate))
    while at < stay.end:
        found.append(at)
        at += gap if even else random.expovariate(stay.rate)
    return found
