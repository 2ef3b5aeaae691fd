"""Where a stream's tokens stand on a time axis: geometry for both printers, no I/O.

The terminal draws cells, the page draws points; both share one `Axis`, so that a broken mode that takes
four times as long is four times as wide.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from math import floor, log10
from typing import Iterable

from flaskstream.lab.runs import ClientRun, ServerRun

SILENCE_INTERVALS = 2
"""A gap longer than this many intervals is drawn as silence; a shorter one is the model's own pace."""

_SHORTEST = 0.001  # seconds: below it there is nothing to see, and at 0 nothing to divide by


@dataclass(frozen=True)
class Axis:
    """Time from 0 to `end` in seconds, with a mark each `step` seconds."""

    end: float
    step: float

    @classmethod
    def over(cls, runs: Iterable[ServerRun], most_ticks: int = 8) -> Axis:
        """Return the axis that all of these runs fit on, with a round step and few enough marks."""
        ends = [max((client.ended_at, *client.arrivals)) for run in runs for client in run.clients]
        end = max(max(ends, default=1.0), _SHORTEST)
        return cls(end, _round_step(end / most_ticks))

    @property
    def ticks(self) -> tuple[float, ...]:
        return tuple(round(n * self.step, 9) for n in range(floor(self.end / self.step + 1e-9) + 1))

    def share(self, seconds: float) -> float:
        """Return where a time stands on the axis: 0 at its beginning, 1 at its end."""
        return min(max(seconds / self.end, 0.0), 1.0)


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, ... (times a power of ten) that is no smaller."""
    power: float = 10.0 ** floor(log10(least))
    return next(power * round_number for round_number in (1, 2, 5, 10) if power * round_number >= least * 0.999)


@dataclass(frozen=True)
class Cell:
    """One column of a timeline: its kind, and how many tokens arrived in it.

    Kinds: "tokens", "waiting" (before the first token), "silence" (too long between tokens), "pace" (between
    tokens that come as they should), and "end".
    """

    kind: str
    tokens: int = 0


def cells(client: ClientRun, axis: Axis, columns: int, interval: float) -> tuple[Cell, ...]:
    """Return the timeline of one client, up to its end mark; at most `columns` + 1 cells."""
    counts = [0] * columns
    for arrival in client.arrivals:
        counts[_column(arrival, axis, columns)] += 1
    end = _column(client.ended_at, axis, columns)
    if client.arrivals:
        end = max(end, _column(client.arrivals[-1], axis, columns) + 1)
    middles = ((n + 0.5) * axis.end / columns for n in range(end))
    drawn = [
        Cell("tokens", count) if count else Cell(_kind_without_tokens(client, middle, interval))
        for count, middle in zip(counts, middles)
    ]
    return (*drawn, Cell("end"))


def _column(seconds: float, axis: Axis, columns: int) -> int:
    return min(int(axis.share(seconds) * columns), columns - 1)


def _kind_without_tokens(client: ClientRun, at: float, interval: float) -> str:
    before = bisect(client.arrivals, at)
    if before == 0:
        return "waiting"
    until = client.arrivals[before] if before < len(client.arrivals) else client.ended_at
    return "silence" if until - client.arrivals[before - 1] > interval * SILENCE_INTERVALS else "pace"


def silences(client: ClientRun, interval: float) -> tuple[tuple[float, float], ...]:
    """Return (from, until) of each gap too long to be the model's pace, the wait for the end included."""
    times = (*client.arrivals, client.ended_at) if client.arrivals else ()
    pairs = zip(times, times[1:])
    return tuple((start, stop) for start, stop in pairs if stop - start > interval * SILENCE_INTERVALS)
