"""The diagnosis as one self-contained page: `doctor.html` filled in, with a timeline of each hop as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

from flaskstream.doctor.diagnosis import Diagnosis, Hop
from flaskstream.doctor.looks import Look
from flaskstream.doctor.shapes import SINGLY_SHARE
from flaskstream.show.axis import Axis
from flaskstream.show.chart import RIGHT, ROW, Chart, Dot, Row, radius_of
from flaskstream.show.page import rendered

_TEMPLATE = Path(__file__).with_name("doctor.html")
_LEFT = 16.0  # percent: the names of the looks stand there

Place = Callable[[float], float]


def html_report(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as one HTML page that loads nothing and runs no script."""
    looks = [look for hop in diagnosis.hops for look in hop.evidence.looks.values()]
    axis = Axis.over([max([look.ended_at, *(tick.came for tick in look.ticks)]) for look in looks], most_ticks=8)
    return rendered(
        _TEMPLATE,
        {"milliseconds": _milliseconds},
        diagnosis=diagnosis,
        hops=[(hop, _chart(n, hop, axis)) for n, hop in enumerate(diagnosis.hops, 1)],
    )


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:,.1f}"


def _chart(number: int, hop: Hop, axis: Axis) -> Chart:
    def place(seconds: float) -> float:
        return round(_LEFT + (RIGHT - _LEFT) * axis.share(seconds), 2)

    rows = tuple(_row(n, name, look, place) for n, (name, look) in enumerate(hop.evidence.looks.items()))
    ticks = tuple((place(tick), f"{tick:g} s") for tick in axis.ticks)
    return Chart(f"hop-{number}", f"{hop.evidence.url}: when each tick came, in each look", _LEFT, ticks, rows)


def _row(number: int, name: str, look: Look, place: Place) -> Row:
    bursts = look.bursts
    first = look.ticks[0].came if look.ticks else look.ended_at
    said = f"{len(look.ticks)} ticks in {len(bursts)} bursts, {'whole' if look.is_whole else look.ended}"
    left = look.variant.leave_after is not None and look.ended == "left"
    return Row(
        label=name,
        said=f"{name}: {said}",
        y=number * ROW + ROW // 2,
        dots=tuple(Dot(place(burst.came), radius_of(burst.ticks), burst.ticks) for burst in bursts),
        wait_until=place(first),
        silences=(),
        end=place(look.ended_at),
        outcome="left" if left else "complete" if look.is_whole else "cut",
        flows=len(bursts) >= SINGLY_SHARE * len(look.ticks),
    )
