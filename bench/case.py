"""What a kind of work is: how it is measured, and how its rows are shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence

Row = Mapping[str, Any]

MIN_HEADROOM = 0.2
"""Of a core, that the load generator and the upstream must have left; else it is them who were measured."""

SLOW = ("Granian", "LiteLLM")
"""Subjects that a quick run leaves out: they take long to start, or are one of the others in other clothes."""


@dataclass
class Run:
    """One run of the bench.

    Attributes:
        quick: shorter, and less exact.
        streams: how many are open at once, where a kind of work is measured at several; empty: its own choice.
        seconds: for which each figure is measured; `None`: its own choice.
        rounds: in each of which every subject has its turn; `None`: its own choice.
        interval_ms: between two tokens of a stream that is relayed.
        event_bytes: of each of these tokens.
        subjects: names of those that are measured; empty: all, but for the slow ones where it is quick.
        say: called with a few words about what is being done.
        skipped: what could not be measured here, and why.
    """

    quick: bool = False
    streams: Sequence[int] = ()
    seconds: float | None = None
    rounds: int | None = None
    interval_ms: float = 50
    event_bytes: int = 220
    subjects: Sequence[str] = ()
    say: Callable[[str], None] = lambda words: None
    skipped: dict[str, str] = field(default_factory=dict)

    def wants(self, subject: str) -> bool:
        """Tell whether this one is to be measured."""
        if self.subjects:
            return subject in self.subjects
        return not self.quick or subject not in SLOW

    def skip(self, name: str, why: str) -> None:
        """Leave something out, aloud."""
        if name not in self.skipped:
            self.say(f"SKIPPED: {name}: {why}")
        self.skipped[name] = why


@dataclass(frozen=True)
class Column:
    """A column of the table of a kind of work.

    Attributes:
        title: above it.
        key: of the value in a row.
        text: makes text of it; `None` is shown as nothing.
    """

    title: str
    key: str
    text: Callable[[Any], str] = str

    def cell(self, row: Row) -> str:
        value = row.get(self.key)
        return "" if value is None else self.text(value)


@dataclass(frozen=True)
class Case:
    """A kind of work that is measured.

    Attributes:
        name: for `--only`, and in JSON.
        title: above its table.
        words: what is measured, in a sentence or two below it.
        columns: of its table.
        run: measures; returns the rows.
    """

    name: str
    title: str
    words: str
    columns: Sequence[Column]
    run: Callable[[Run], list[Row]]


def microseconds(value: float) -> str:
    return f"{value:.1f} us" if value < 100 else f"{value:,.0f} us"


def milliseconds(value: float) -> str:
    if value < 10:
        return f"{value:.2f} ms"
    return f"{value:,.0f} ms"


def times(value: float) -> str:
    return f"{value:.2f}"


def percent(value: float) -> str:
    return f"{value * 100:.0f} %"


def number(value: float) -> str:
    return f"{value:,.0f}"
