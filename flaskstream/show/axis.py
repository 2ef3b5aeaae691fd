"""A time axis, for whatever draws on one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import Iterable

_SHORTEST = 0.001  # seconds: below it there is nothing to see, and at 0 nothing to divide by


@dataclass(frozen=True)
class Axis:
    """Time from 0 to `end` in seconds, with a mark each `step` seconds."""

    end: float
    step: float

    @classmethod
    def over(cls, ends: Iterable[float], most_ticks: int = 8) -> Axis:
        """Return the axis that all of these times fit on, with a round step and few enough marks."""
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
