"""What the kit may cost, line by line, and whether it did. Pure: figures in, lines out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from operator import itemgetter
from statistics import median
from typing import Any, Callable, Mapping, Sequence

from bench.case import Row
from bench.subjects import KIT, KIT_CHAT, KIT_STORE, NAIVE, NODE, STARLETTE

Cases = Mapping[str, Sequence[Row]]

REFERENCE_STREAMS = 300
"""At which the cost of a token counts: with fewer the waiting costs more than they do, with more some are saturated."""

MANY_STREAMS = 1000


@dataclass(frozen=True)
class Line:
    """One line of the budget.

    Attributes:
        what: is limited.
        limit: the most that it may be.
        value: what it was; `None`: that was not measured.
        unit: of both.
    """

    what: str
    limit: float
    value: float | None
    unit: str = ""

    @property
    def verdict(self) -> str:
        """ "met", "missed", or "not measured"."""
        if self.value is None:
            return "not measured"
        return "met" if self.value <= self.limit else "missed"

    def as_json(self) -> dict[str, Any]:
        """Return it with its verdict."""
        return {**asdict(self), "verdict": self.verdict}


def budget(cases: Cases) -> list[Line]:
    """Return all lines.

    Args:
        cases: the rows of each kind of work that was measured, by its name.
    """
    return [*_costs(cases), _latency(cases), *_idle(cases), *_overload(cases), _gone(cases)]


def _costs(cases: Cases) -> list[Line]:
    limits = ((NAIVE, 0.8), (STARLETTE, 0.3), (NODE, 1.0))
    return [
        Line(
            f"cost of a token, {mine}, beside {other} ({REFERENCE_STREAMS} streams)", limit, _ratio(cases, mine, other)
        )
        for mine in (KIT, KIT_CHAT, KIT_STORE)
        for other, limit in limits
    ]


def _ratio(cases: Cases, mine: str, other: str) -> float | None:
    rows = [_row(cases, "relay", subject=name, streams=REFERENCE_STREAMS) for name in (mine, other)]
    if any(row is None or not row["valid"] for row in rows):
        return None
    pairs = [(a, b) for a, b in zip(*(row["cpu_us_rounds"] for row in rows if row)) if a and b]
    return round(median(a / b for a, b in pairs), 2) if pairs else None


def _latency(cases: Cases) -> Line:
    mine, naive = (_row(cases, "relay", subject=name, streams=MANY_STREAMS) for name in (KIT, NAIVE))
    value = None
    if mine and naive and mine["valid"] and naive["valid"] and mine["p99_ms"] and naive["p99_ms"]:
        value = round(mine["p99_ms"] / naive["p99_ms"], 2)
    return Line(f"p99 of what is added, {KIT}, beside {NAIVE} ({MANY_STREAMS:,} streams)", 1.0, value)


def _idle(cases: Cases) -> list[Line]:
    memory = _worst(cases, "idle", itemgetter("pss_bytes"), KIT, KIT_CHAT)
    core = _worst(cases, "idle", itemgetter("core"), KIT, KIT_CHAT)
    return [
        Line("memory of an idle stream", 60.0, None if memory is None else round(memory / 1000, 1), "KB"),
        Line("idle streams, of a core", 5.0, None if core is None else round(core * 100, 1), "%"),
    ]


def _overload(cases: Cases) -> list[Line]:
    limits = (
        ("p99 under overload", 500.0, "p99_ms", "ms"),
        ("the p99 of the slowest stream beside the fastest's, under overload", 2.0, "fairness", ""),
        ("streams that starve under overload", 0.0, "starved", ""),
    )
    return [
        Line(what, limit, _worst(cases, "overload", itemgetter(key), KIT, KIT_CHAT), unit)
        for what, limit, key, unit in limits
    ]


def _gone(cases: Cases) -> Line:
    return Line("client gone to upstream left, p99", 50.0, _worst(cases, "gone", _gone_p99), "ms")


def _gone_p99(row: Row) -> float:
    return float("inf") if row["p99_ms"] is None else float(row["p99_ms"])


def _row(cases: Cases, case: str, **wanted: Any) -> Row | None:
    for row in cases.get(case, ()):
        if all(row[key] == value for key, value in wanted.items()):
            return row
    return None


def _worst(cases: Cases, case: str, of: Callable[[Row], float | None], *subjects: str) -> float | None:
    rows = [row for row in cases.get(case, ()) if not subjects or row["subject"] in subjects]
    values = [of(row) for row in rows if row.get("valid", True)]
    return max((value for value in values if value is not None), default=None)
