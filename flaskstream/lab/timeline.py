"""Where a stream's tokens stand on a time axis: geometry for both printers, no I/O.

The terminal draws cells, the page draws points; both share one `Axis`, so that a broken mode that takes
four times as long is four times as wide.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from typing import Iterable

from flaskstream.lab.runs import ClientRun, ServerRun
from flaskstream.show.axis import Axis

SILENCE_INTERVALS = 2
"""A gap longer than this many intervals is drawn as silence; a shorter one is the model's own pace."""


def axis_over(runs: Iterable[ServerRun], most_ticks: int = 8) -> Axis:
    """Return the axis that all of these runs fit on."""
    ends = [max((client.ended_at, *client.arrivals)) for run in runs for client in run.clients]
    return Axis.over(ends, most_ticks)


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
