"""What is seen of all machines, once a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from bench.fleet import Machine
from bench.queueing import Delay

LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Look:
    """What was seen in one second; times in seconds.

    Attributes:
        at: the end of it.
        streams: that have a place.
        away: that were driven out and have none yet.
        by_machine, by_worker: the most streams that one has, beside the mean of those that take streams.
        busiest, busy: of a worker's core, what the tokens and starts of this second need; the most, and the mean.
        wait: of a token, in the mean.
        worst_p99: of the worker whose tokens waited longest.
        starts, starts_on_one: connections that came; the most on one machine.
        refused: turned away, or sent to a machine that is gone.
    """

    at: float
    streams: int
    away: int
    by_machine: float
    by_worker: float
    busiest: float
    busy: float
    wait: float
    worst_p99: float
    starts: int
    starts_on_one: int
    refused: int


def look_at(
    now: float,
    machines: Sequence[Machine],
    taking: Sequence[Machine],
    seen: Sequence[tuple[float, Delay]],
    counted: tuple[int, int, int],
) -> Look:
    """Return what there is to be seen; counting the connections of each machine begins anew.

    Args:
        now: the end of this second.
        machines: all.
        taking: those that take streams.
        seen: of each worker the tokens that came, and how long they waited.
        counted: clients that are away, connections that came, and those that were refused.
    """
    away, starts, refused = counted
    delays = [delay for _, delay in seen]
    found = Look(
        at=now,
        streams=sum(machine.streams for machine in machines),
        away=away,
        by_machine=_most_beside_mean([machine.streams for machine in taking]),
        by_worker=_most_beside_mean([len(worker.streams) for one in taking for worker in one.workers]),
        busiest=max(delay.utilisation for delay in delays),
        busy=sum(delay.utilisation for delay in delays) / len(delays),
        wait=sum(came * delay.mean for came, delay in seen) / (sum(came for came, _ in seen) or 1.0),
        worst_p99=max(delays, key=lambda delay: delay.mean).p99(),
        starts=starts,
        starts_on_one=max(machine.starts for machine in machines),
        refused=refused,
    )
    for machine in machines:
        machine.starts = 0
    return found


def _most_beside_mean(counts: Sequence[int]) -> float:
    return max(counts) * len(counts) / sum(counts) if sum(counts) else 1.0
