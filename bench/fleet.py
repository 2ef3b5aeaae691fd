"""What the simulation is made of: streams, workers, machines, and how a balancer chooses between these."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Callable, Mapping, Sequence

from bench.queueing import Backlog, Delay
from flaskstream.serving.deploy import DRAIN_SHARE, GENERATION_SHARE

TIMEOUT = 30.0
"""Seconds, gunicorn's `timeout` in the kit's settings: a worker that only produces gives no sign of life for longer."""


@dataclass(frozen=True)
class Terms:
    """What is simulated. Times are in seconds.

    Attributes:
        streams: open at once, in the mean.
        machines, workers: of these so many on each machine, each with a core of its own.
        rate: tokens a second of a stream, in the mean.
        seconds: how long an answer is, in the mean.
        spread: of the logarithm of that length, and half of it of that of the rate.
        cost: processor time of a token.
        start_cost: of a stream's beginning and end.
        limit: `max_streams` of a worker.
        balancer: a name of `BALANCERS`.
        retry_ms: the option `retry`.
        graceful: `graceful_timeout`; of it the kit lets streams finish, and answers in a store be produced.
        boot: until a machine that was stopped answers again.
        detect: until the balancer sees that a machine is gone.
        together: machines that are deployed at the same time.
        store: whether answers are in a store that all machines reach.
        steady: before the deploy.
        settle: after it, and after the loss of a machine.
    """

    streams: int
    machines: int
    workers: int
    rate: float = 20.0
    seconds: float = 45.0
    spread: float = 0.8
    cost: float = 30e-6
    start_cost: float = 1.4e-3
    limit: int = 1_000_000
    balancer: str = "least"
    retry_ms: int = 3000
    graceful: float = 30.0
    boot: float = 3.0
    detect: float = 2.0
    together: int = 1
    store: bool = False
    steady: float = 30.0
    settle: float = 40.0

    @property
    def drain(self) -> float:
        return self.graceful * DRAIN_SHARE

    @property
    def produce(self) -> float:
        return min(self.graceful, TIMEOUT) * GENERATION_SHARE

    @property
    def out(self) -> float:
        """For how long a machine that is deployed takes no streams."""
        return (self.produce if self.store else self.drain) + self.boot

    @property
    def deployed_at(self) -> float:
        return self.steady + math.ceil(self.machines / self.together) * self.out

    @property
    def lose_at(self) -> float:
        return self.deployed_at + self.settle

    @property
    def ends_at(self) -> float:
        return self.lose_at + self.settle


class Stream:
    """A client that wants one answer.

    Attributes:
        seconds, rate: of the answer.
        left: seconds of it that it has not had.
        turn: how many times it has changed its place: what was planned for an earlier one does not count.
        lost_at: when the worker that produces the answer gives it up.
        storm: what it was driven out by, until it is back.
        ends: how many times its end was told.
    """

    __slots__ = ("begun", "ends", "left", "lost_at", "rate", "seconds", "storm", "turn", "worker")

    def __init__(self, seconds: float, rate: float) -> None:
        self.seconds = self.left = seconds
        self.rate = rate
        self.turn = self.ends = 0
        self.begun = 0.0
        self.lost_at: float | None = None
        self.worker: Worker | None = None
        self.storm: Storm | None = None


class Worker:
    """A process with a core: what it has now, and what came to it since it was last looked at."""

    __slots__ = ("_since", "_tokens", "backlog", "machine", "rate", "starts", "streams")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.streams: dict[Stream, None] = {}
        self.rate = 0.0
        self.starts = 0
        self.backlog = Backlog()
        self._tokens = self._since = 0.0

    def enter(self, stream: Stream, now: float) -> None:
        self._count(now)
        self.streams[stream] = None
        self.rate += stream.rate
        self.machine.streams += 1
        stream.worker = self

    def leave(self, stream: Stream, now: float) -> None:
        self._count(now)
        del self.streams[stream]
        self.rate = self.rate - stream.rate if self.streams else 0.0
        self.machine.streams -= 1
        stream.worker = None

    def _count(self, now: float) -> None:
        self._tokens += self.rate * (now - self._since)
        self._since = now

    def look(self, now: float, seconds: float, cost: float, start_cost: float) -> tuple[float, Delay]:
        """Return the tokens that came in these last seconds, and how long they waited."""
        self._count(now)
        tokens, starts = self._tokens, self.starts
        self._tokens, self.starts = 0.0, 0
        jobs = ((tokens / seconds, cost), (starts / seconds, start_cost))
        return tokens, self.backlog.step(jobs, seconds)


class Machine:
    """Some workers. `is_listed`: the balancer knows it; `is_up`: it answers."""

    def __init__(self, workers: int) -> None:
        self.workers = [Worker(self) for _ in range(workers)]
        self.streams = 0
        self.starts = 0
        self.is_listed = self.is_up = True


@dataclass
class Storm:
    """Streams that were driven out by one event, and how soon they were back.

    Attributes:
        kind: `deploy` or `loss`.
        began: when the first of them was.
        out: how many were driven out.
        back: how many of them have a place again.
        last_back: when the last of them got it.
    """

    kind: str
    began: float
    out: int = 0
    back: int = 0
    last_back: float = 0.0


Chooser = Callable[[Sequence[Machine]], Machine]


def _round_robin() -> Chooser:
    turn = -1

    def choose(machines: Sequence[Machine]) -> Machine:
        nonlocal turn
        turn += 1
        return machines[turn % len(machines)]

    return choose


def _least() -> Chooser:
    turn = 0

    def choose(machines: Sequence[Machine]) -> Machine:
        nonlocal turn
        turn += 1  # between equals in turn
        start = turn % len(machines)
        return min((*machines[start:], *machines[:start]), key=_open_streams)

    return choose


def _two() -> Chooser:
    return lambda machines: min(random.choice(machines), random.choice(machines), key=_open_streams)


def _open_streams(machine: Machine) -> int:
    return machine.streams


BALANCERS: Mapping[str, Callable[[], Chooser]] = {"round-robin": _round_robin, "least": _least, "two": _two}
"""How the next connection's machine is chosen: in turn; the one with the fewest; the better of two taken at random."""


def listed(machines: Sequence[Machine]) -> list[Machine]:
    return [machine for machine in machines if machine.is_listed]
