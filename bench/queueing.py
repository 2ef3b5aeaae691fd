"""How long a token waits for its worker: computed for a stretch of time, and token by token, which checks the other.

A worker is one server that takes its jobs in the order in which they come. A token is a job of the same cost each time;
so is the beginning of a stream, a longer one. What came from many streams within a second is taken for a Poisson
process: each stream has its own phase, and no two of them know of each other. That is the queue M/G/1, whose mean wait
is Pollaczek's and Khinchine's, and whose tail is Cramer's and Lundberg's. What comes in beyond what the worker can do is
carried on as a backlog, as if it were a fluid.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass
from typing import Iterator, List, Sequence, Tuple

Jobs = Sequence[Tuple[float, float]]
"""Each kind: how many come in a second, and how many seconds one takes."""

_NEARLY = 1e-9


@dataclass(frozen=True)
class Delay:
    """How long the tokens of a stretch of time waited, in seconds, before their own cost; and what share of it was busy.

    Attributes:
        mean: of all of them.
        p99: one in a hundred waited longer.
        utilisation: the work that came, for each second of the worker; above 1: more than it can do.
        backlog: what was left of it at the end, in seconds of work.
    """

    mean: float
    p99: float
    utilisation: float
    backlog: float


def utilisation(jobs: Jobs) -> float:
    return sum(rate * cost for rate, cost in jobs)


def mean_wait(jobs: Jobs) -> float:
    """Return the mean wait in seconds: half of the second moment of the work, over what is idle."""
    idle = 1 - utilisation(jobs)
    return _variance(jobs) / (2 * idle) if idle > _NEARLY else math.inf


def _variance(jobs: Jobs) -> float:
    return sum(rate * cost * cost for rate, cost in jobs)


def wait_exceeded_by(share: float, jobs: Jobs) -> float:
    """Return the wait in seconds that this share of the jobs exceeds."""
    busy = utilisation(jobs)
    if busy > 1 - _NEARLY:
        return math.inf
    if busy <= share:
        return 0.0  # so few wait at all
    decay = _decay(jobs)
    slope = sum(rate * cost * math.exp(decay * cost) for rate, cost in jobs) - 1
    return max(0.0, math.log((1 - busy) / slope / share) / decay)


def _decay(jobs: Jobs) -> float:
    """Return the `x` above 0 where the sum of `rate * (exp(x * cost) - 1)` is `x`: the tail falls as `exp(-x * wait)`.

    The difference is convex, 0 at 0 and falling there; Newton's steps come down to the root from above it.
    """
    from_above = 2 * (1 - utilisation(jobs)) / _variance(jobs)  # the parabola below the curve has its root there
    for _ in range(40):
        grown = [(rate, cost, math.exp(from_above * cost)) for rate, cost in jobs if rate]
        above = sum(rate * (power - 1) for rate, _, power in grown) - from_above
        step = above / (sum(rate * cost * power for rate, cost, power in grown) - 1)
        from_above -= step
        if abs(step) < 1e-6 * from_above:
            break
    return from_above


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
        drift = busy - 1
        self.seconds = max(0.0, before + drift * seconds)
        spread = math.sqrt(_variance(jobs) * seconds)
        chance = min(mean_wait(jobs), spread * math.sqrt(2 / math.pi))
        chance_p99 = min(wait_exceeded_by(0.01, jobs), spread * 2.576)
        fluid = _mean_of_fluid(before, drift, seconds)
        return Delay(fluid + chance, max(before, self.seconds) + chance_p99, busy, self.seconds)


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
) -> Iterator[Tuple[float, float]]:
    """Yield for each token when it came and how long it waited: every job in its turn, on one worker.

    Args:
        stays: the streams that this worker has had; one that was there from the beginning has no start.
        cost, start_cost: of a token and of a stream's beginning, in seconds.
        even: tokens of a stream come at even distances; else at random ones with the same mean.
    """
    free_at = 0.0
    for at, takes, is_token in heapq.merge(*(_jobs(stay, cost, start_cost, even) for stay in stays)):
        begins = max(at, free_at)
        free_at = begins + takes
        if is_token:
            yield at, begins - at


def _jobs(stay: Stay, cost: float, start_cost: float, even: bool) -> List[Tuple[float, float, bool]]:
    found = [(stay.begin, start_cost, False)] if stay.begin > 0 else []
    gap = 1 / stay.rate
    at = stay.begin + random.uniform(0, gap) if even else stay.begin + random.expovariate(stay.rate)
    while at < stay.end:
        found.append((at, cost, True))
        at += gap if even else random.expovariate(stay.rate)
    return found
