"""Streams on one time axis, as a page draws them: what stands where. Pure.

Positions along the axis are percentages of the drawing's width and sizes are pixels, so that a narrow screen moves the
dots together and leaves the text readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

ROW = 26  # pixels
_AXIS_ROOM = 28
RIGHT = 92.0  # percent: beside it the mark of a stream that ends last has its place
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
        return max(len(self.rows), 1) * ROW + 4

    @property
    def height(self) -> int:
        return self.axis_y + _AXIS_ROOM

    @property
    def right(self) -> float:
        return RIGHT


def radius_of(tokens: int) -> float:
    """Return the radius of a dot, in pixels: its area shows how many tokens it is."""
    return round(min(_DOT * sqrt(tokens), _LARGEST_DOT), 2)
