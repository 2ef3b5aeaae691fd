"""The comparison as one self-contained page: `compare.html` filled in, with the timelines as SVG.

What stands where on a timeline is worked out here; the template only places it. Positions along the time
axis are percentages of the drawing's width and sizes are pixels, so that a narrow screen moves the dots
together and leaves the text readable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

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
from flaskstream.show.chart import RIGHT, ROW, Chart, Dot, Row, radius_of
from flaskstream.show.page import rendered

_TEMPLATE = Path(__file__).with_name("compare.html")


def html_report(comparison: Comparison) -> str:
    """Return the comparison as one HTML page that loads nothing and runs no script."""
    runs = (comparison.fixed, comparison.broken)
    axis = axis_over(runs, most_ticks=6)
    return rendered(
        _TEMPLATE,
        {"duration": seconds_text},
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
        return round(left + (RIGHT - left) * axis.share(seconds), 2)

    rows = []
    for number, (label, run, client) in enumerate(clients):
        rows.append(
            Row(
                label=label,
                said=_said(label, run, client),
                y=number * ROW + ROW // 2,
                dots=tuple(Dot(place(at), radius_of(count), count) for at, count in client.bursts(run.interval)),
                wait_until=place(client.arrivals[0] if client.arrivals else client.ended_at),
                silences=tuple((place(start), place(stop)) for start, stop in silences(client, run.interval)),
                end=place(client.ended_at),
                outcome=run.outcome_of(client),
                flows=flows(run, client),
            )
        )
    return Chart(chart_id, title, left, tuple((place(tick), f"{tick:g} s") for tick in axis.ticks), tuple(rows))


def _said(label: str, run: ServerRun, client: ClientRun) -> str:
    first = "no token" if client.first_token is None else f"first token after {seconds_text(client.first_token)}"
    came = f"{len(client.arrivals)} of {run.tokens} in {count_text(len(client.bursts(run.interval)), 'burst')}"
    return f"{label}: {first}, {came}, {ending_words(run, client)} after {seconds_text(client.ended_at)}"
