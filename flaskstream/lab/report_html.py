"""The comparison as one self-contained page: `compare.html` filled in, with the timelines as SVG.

What stands where on a timeline is worked out here; the template only places it. Positions along the time
axis are percentages of the drawing's width and sizes are pixels, so that a narrow screen moves the dots
together and leaves the text readable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Sequence

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from flaskstream.lab.figures import (
    FAULT_FIGURES,
    MODE_FIGURES,
    count_text,
    ending_words,
    notes,
    run_words,
    seconds_text,
)
from flaskstream.lab.judge import complaints, flows
from flaskstream.lab.results import ClientRun, Comparison, FaultLine, ServerRun
from flaskstream.lab.timeline import axis_over, silences
from flaskstream.show.axis import Axis

_TEMPLATE = Path(__file__).with_name("compare.html")

_ROW = 26  # pixels
_AXIS_ROOM = 28
_RIGHT = 92.0  # percent: beside it the mark of a stream that ends last has its place
_DOT, _LARGEST_DOT = 2.6, 10.0


@dataclass(frozen=True)
class Dot:
    """Tokens that arrived together: where (percent), how large (pixels), how many."""

    x: float
    radius: float
    tokens: int

    @property
    def numbered(self) -> bool:
        return self.radius > 8


@dataclass(frozen=True)
class Row:
    """One client's stream on a chart."""

    label: str
    said: str
    y: int
    dots: tuple[Dot, ...]
    wait_until: float
    silences: tuple[tuple[float, float], ...]
    end: float
    outcome: str
    flows: bool

    @property
    def end_shift(self) -> float:
        """How far right of its place the end mark stands, in pixels, so that it covers no dot."""
        return 7 + (self.dots[-1].radius if self.dots else 0.0)


@dataclass(frozen=True)
class Chart:
    """A drawing of some streams on one axis."""

    id: str
    title: str
    left: float
    ticks: tuple[tuple[float, str], ...]
    rows: tuple[Row, ...]

    @property
    def axis_y(self) -> int:
        return max(len(self.rows), 1) * _ROW + 4

    @property
    def height(self) -> int:
        return self.axis_y + _AXIS_ROOM

    @property
    def right(self) -> float:
        return _RIGHT


def html_report(comparison: Comparison) -> str:
    """Return the comparison as one HTML page that loads nothing and runs no script."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(duration=seconds_text, ticked=_ticked)
    runs = (comparison.fixed, comparison.broken)
    axis = axis_over(runs, most_ticks=6)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        comparison=comparison,
        verdict=comparison.verdict,
        setting=run_words(comparison.fixed),
        modes=[(run, _mode_chart(run, axis), not complaints(run)) for run in runs],
        mode_figures=MODE_FIGURES,
        fault_figures=FAULT_FIGURES,
        faults=[(fault, _fault_chart(fault), notes(fault.faulty, fault.control)) for fault in comparison.faults],
        shown=sum(fault.shows for fault in comparison.faults),
        not_shown=[fault.name for fault in comparison.faults if not fault.shows],
        ending=ending_words,
    )


def _ticked(text: str) -> Markup:
    """Return the text as HTML, with what stands in backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _mode_chart(run: ServerRun, axis: Axis) -> Chart:
    title = f"{run.name}: when each token arrived at {count_text(len(run.clients), 'client')}"
    rows = [(str(number), run, client) for number, client in enumerate(run.clients, 1)]
    return _chart(f"chart-{run.name}", title, rows, axis, left=6.0)


def _fault_chart(fault: FaultLine) -> Chart:
    """With the fault and without it: the client that had to wait longest."""
    runs = (("with it", fault.faulty), ("without", fault.control))
    rows = [(label, run, max(run.clients, key=_wait)) for label, run in runs if run.clients]
    title = f"{fault.name}: when the tokens arrived at the client that waited longest, with the fault and without it"
    axis = axis_over((fault.faulty, fault.control), most_ticks=4)
    return _chart(f"chart-{fault.name}", title, rows, axis, left=19.0)


def _wait(client: ClientRun) -> float:
    return client.arrivals[0] if client.arrivals else float("inf")


def _chart(
    chart_id: str, title: str, clients: Sequence[tuple[str, ServerRun, ClientRun]], axis: Axis, left: float
) -> Chart:
    def place(seconds: float) -> float:
        return round(left + (_RIGHT - left) * axis.share(seconds), 2)

    rows = []
    for number, (label, run, client) in enumerate(clients):
        rows.append(
            Row(
                label=label,
                said=_said(label, run, client),
                y=number * _ROW + _ROW // 2,
                dots=tuple(Dot(place(at), _radius(count), count) for at, count in client.bursts(run.interval)),
                wait_until=place(client.arrivals[0] if client.arrivals else client.ended_at),
                silences=tuple((place(start), place(stop)) for start, stop in silences(client, run.interval)),
                end=place(client.ended_at),
                outcome=run.outcome_of(client),
                flows=flows(run, client),
            )
        )
    return Chart(chart_id, title, left, tuple((place(tick), f"{tick:g} s") for tick in axis.ticks), tuple(rows))


def _radius(tokens: int) -> float:
    """The area shows how many."""
    return round(min(_DOT * sqrt(tokens), _LARGEST_DOT), 2)


def _said(label: str, run: ServerRun, client: ClientRun) -> str:
    first = "no token" if client.first_token is None else f"first token after {seconds_text(client.first_token)}"
    came = f"{len(client.arrivals)} of {run.tokens} in {count_text(len(client.bursts(run.interval)), 'burst')}"
    return f"{label}: {first}, {came}, {ending_words(run, client)} after {seconds_text(client.ended_at)}"
