"""The simulation itself: what happens to the streams of many machines, one event after the other.

It is discrete: a stream that begins, ends or changes its place is an event, a token is not; how long tokens wait is
computed once a second from what came to each worker (`bench.queueing`). All chance comes from one seed.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import random
from collections import Counter
from typing import Any, Callable, Iterator

from bench.fleet import BALANCERS, Machine, Storm, Stream, Terms, Worker, listed
from bench.fleet_look import LOOK_SECONDS, Look, look_at
from bench.queueing import Delay, Stay
from flaskstream.come_back import reconnection_times, retry_after, time_to_move


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Have all chance come from this seed, that of `flaskstream.come_back` too; afterwards it is as it was."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


class Simulation:
    """One run. `counts` has what happened how often: `begun`, `ended`, `refused`, `out`, `back`, `asked_again`.

    Args:
        terms: what is simulated.
        keep: keep every stay of every stream in `stays`, and what was computed for each second in `delays`, by worker.
    """

    def __init__(self, terms: Terms, keep: bool = False) -> None:
        self.terms = terms
        self.now = 0.0
        self.counts: Counter[str] = Counter()
        self.machines = [Machine(terms.workers) for _ in range(terms.machines)]
        self.looks: list[Look] = []
        self.storms: list[Storm] = []
        self.stays: dict[Worker, list[Stay]] = {}
        self.delays: dict[Worker, list[Delay]] = {}
        self._keeps = keep
        self._listed = listed(self.machines)
        self._choose = BALANCERS[terms.balancer]()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._starts = self._refused = 0
        self._comes = True

    def run(self, deploys: bool = True, loses: bool = True) -> Simulation:
        """Run to the end, and then until every stream has ended."""
        terms = self.terms
        self._fill()
        self._plan(0.0, self._arrive)
        self._plan_look()
        if deploys:
            for number, machine in enumerate(self.machines):
                self._plan(terms.steady + number // terms.together * terms.out, self._tell_to_stop, machine)
        if loses:
            self._plan(terms.lose_at, self._lose, self.machines[-1])
        self._plan(terms.ends_at, self._close)
        while self._events:
            self.now, _, call, arguments = heapq.heappop(self._events)
            call(*arguments)
        return self

    def _plan(self, at: float, call: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (at, next(self._order), call, arguments))

    def _fill(self) -> None:
        """Begin as if it had gone on for ever: a stream that is open now is longer than others, and somewhere in it."""
        for _ in range(self.terms.streams):
            stream = self._stream(self.terms.spread**2)
            stream.left = stream.seconds * random.random()
            self.counts["begun"] += 1
            machine = random.choice(self.machines)  # as chance has left it; a balancer that looks evens it out
            if self.terms.balancer != "round-robin":
                machine = self._choose(self.machines)
            self._stay(stream, random.choice(machine.workers))

    def _stream(self, longer: float = 0.0) -> Stream:
        terms = self.terms
        middle = math.log(terms.seconds) - terms.spread**2 / 2 + longer
        pace = terms.spread / 2
        return Stream(
            random.lognormvariate(middle, terms.spread),
            terms.rate * random.lognormvariate(-(pace**2) / 2, pace),
        )

    def _arrive(self) -> None:
        if not self._comes:
            return
        self._plan(self.now + random.expovariate(self.terms.streams / self.terms.seconds), self._arrive)
        self.counts["begun"] += 1
        self._connect(self._stream())

    def _connect(self, stream: Stream) -> None:
        self._starts += 1
        machine = self._choose(self._listed) if self._listed else None
        if machine is None or not machine.is_up:
            after, _ = reconnection_times(self.terms.retry_ms)
            self._refuse(stream, (after or 0) / 1000)
            return
        machine.starts += 1
        worker = random.choice(machine.workers)  # the kernel's choice: whoever is first to accept
        worker.starts += 1
        if len(worker.streams) >= self.terms.limit:
            self._refuse(stream, float(retry_after()))
        else:
            self._stay(stream, worker)

    def _refuse(self, stream: Stream, after: float) -> None:
        self._refused += 1
        self.counts["refused"] += 1
        self._plan(self.now + after, self._connect, stream)

    def _stay(self, stream: Stream, worker: Worker) -> None:
        worker.enter(stream, self.now)
        stream.begun = self.now
        if stream.storm is not None:
            self.counts["back"] += 1
            stream.storm.back += 1
            stream.storm.last_back = self.now
            stream.storm = None
        ends_at = self.now + stream.left
        if stream.lost_at is not None and stream.lost_at < ends_at:
            self._plan(max(self.now, stream.lost_at), self._give_up, stream, stream.turn)
        else:
            self._plan(ends_at, self._end, stream, stream.turn)

    def _end(self, stream: Stream, turn: int) -> None:
        if turn == stream.turn:
            self._leave(stream)
            stream.ends += 1
            self.counts["ended"] += stream.ends  # a second end of one would not add up

    def _give_up(self, stream: Stream, turn: int) -> None:
        """The old worker's time is over before its answer is: the reader is told so, and asks again."""
        if turn == stream.turn:
            self._drive_out(stream, self._again_after_deploy(), Storm("deploy", self.now))

    def _leave(self, stream: Stream) -> None:
        worker = stream.worker
        assert worker is not None, "a stream that ends has a place"
        if self._keeps:
            self.stays.setdefault(worker, []).append(Stay(stream.begun, self.now, stream.rate))
        worker.leave(stream, self.now)
        stream.turn += 1

    def _drive_out(self, stream: Stream, after: float, storm: Storm, keeps: bool = False) -> None:
        """Take its place. After so many seconds it comes back, and asks for all of it unless it keeps what it had."""
        self._leave(stream)
        self.counts["out"] += 1
        if keeps:
            stream.left -= self.now - stream.begun
        else:
            stream.left, stream.lost_at = stream.seconds, None
            self.counts["asked_again"] += 1
        stream.storm = storm
        storm.out += 1
        if storm.out == 1:
            storm.began = self.now
            self.storms.append(storm)
        self._plan(self.now + after, self._connect, stream)

    def _tell_to_stop(self, machine: Machine) -> None:
        terms, storm = self.terms, Storm("deploy", self.now)
        self._list(machine, False)
        if terms.store:
            for stream in _streams(machine):
                if stream.lost_at is None:
                    stream.lost_at = self.now + terms.produce
                self._drive_out(stream, (time_to_move(terms.retry_ms) or 0) / 1000, storm, keeps=True)
        else:
            self._plan(self.now + terms.drain, self._stop, machine, storm)
        self._plan(self.now + terms.out, self._list, machine, True)

    def _stop(self, machine: Machine, storm: Storm) -> None:
        for stream in _streams(machine):
            self._drive_out(stream, self._again_after_deploy(), storm)

    def _again_after_deploy(self) -> float:
        return (reconnection_times(self.terms.retry_ms)[1] or 0) / 1000

    def _lose(self, machine: Machine) -> None:
        machine.is_up, storm = False, Storm("loss", self.now)
        for stream in _streams(machine):
            self._drive_out(stream, (reconnection_times(self.terms.retry_ms)[0] or 0) / 1000, storm)
        self._plan(self.now + self.terms.detect, self._list, machine, False)

    def _list(self, machine: Machine, is_listed: bool) -> None:
        machine.is_listed = is_listed
        self._listed = listed(self.machines)

    def _close(self) -> None:
        self._comes = False

    def _look(self) -> None:
        """See the second that is over. What happens in this same instant belongs to the next one."""
        if not self._comes:
            return
        workers = [worker for machine in self.machines for worker in machine.workers]
        costs = self.terms.cost, self.terms.start_cost
        seen = [worker.look(self.now, LOOK_SECONDS, *costs) for worker in workers]
        self._remember(workers, seen)
        taking = [machine for machine in self._listed if machine.is_up]
        away = self.counts["out"] - self.counts["back"]
        self.looks.append(look_at(self.now, self.machines, taking, seen, (away, self._starts, self._refused)))
        self._starts = self._refused = 0
        self._plan_look()

    def _plan_look(self) -> None:
        heapq.heappush(self._events, (self.now + LOOK_SECONDS, -1, self._look, ()))

    def _remember(self, workers: list[Worker], seen: list[tuple[float, Delay]]) -> None:
        if self._keeps:
            for worker, (_, delay) in zip(workers, seen):
                self.delays.setdefault(worker, []).append(delay)


def _streams(machine: Machine) -> list[Stream]:
    return [stream for worker in machine.workers for stream in worker.streams]
