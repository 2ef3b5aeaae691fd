"""How a terminal is written to: colours, characters, wrapped lines, and the timelines drawn with them.

A line is laid out first and coloured last, in `Look.paint` and nowhere else, so that without colour it is
the same text.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import Any, Sequence

import click

from flaskstream.lab.figures import seconds_text
from flaskstream.lab.judge import flows
from flaskstream.lab.runs import ClientRun, ServerRun
from flaskstream.lab.timeline import Axis, Cell, cells

_STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "quiet": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "doubt": {"fg": "yellow"},
    "plain": {},
}


@dataclass(frozen=True)
class Glyphs:
    """What a timeline is drawn with."""

    levels: str
    kinds: dict[str, str]
    ends: dict[str, str]
    rule: str
    axis: str  # its left end, a mark, and the line between


UNICODE = Glyphs(
    levels="▁▂▃▄▅▆▇█",
    kinds={"waiting": "·", "silence": "─", "pace": " "},
    ends={"complete": "✓", "cut": "✗", "looked_whole": "!", "left": "←"},
    rule="─",
    axis="└┴─",
)
ASCII = Glyphs(
    levels=":;+=oO%#",
    kinds={"waiting": ".", "silence": "_", "pace": " "},
    ends={"complete": "|", "cut": "X", "looked_whole": "!", "left": "<"},
    rule="-",
    axis="++-",
)
_KIND_STYLES = {"waiting": "quiet", "silence": "doubt", "pace": "plain"}
_OUTCOMES = {
    "complete": ("good", "done"),
    "cut": ("bad", "cut"),
    "looked_whole": ("bad", "done with tokens missing"),
    "left": ("plain", "left"),
}


@dataclass(frozen=True)
class Look:
    """How to write: in colour or not, how wide, and with which characters."""

    color: bool
    width: int
    glyphs: Glyphs

    def paint(self, style: str, text: str) -> str:
        return click.style(text, **_STYLES[style]) if self.color and text.strip() else text

    def wrap(self, text: str, indent: str = "", hanging: str | None = None, room: int | None = None) -> list[str]:
        glued = re.sub(r"(?<=\d) (?=\w)", "\xa0", text)  # a number stays with what it counts
        hanging = indent if hanging is None else hanging
        lines = textwrap.wrap(
            glued, room or self.width, initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False
        )
        return [line.replace("\xa0", " ") for line in lines]


def timelines(fixed: ServerRun, broken: ServerRun, look: Look) -> list[str]:
    """Return the lines that show each client of both modes on one time axis."""
    runs = (fixed, broken)
    number_room = len(str(max(len(run.clients) for run in runs)))
    name_room = max(len(run.name) for run in runs)
    margin = 2 + name_room + 2 + number_room + 2
    columns = look.width - margin - 1
    axis = Axis.over(runs, most_ticks=columns // 8)
    lines = []
    for run in runs:
        if not run.clients:
            lines.append(f"  {look.paint('title', run.name.ljust(name_room))}  no client was driven")
        for number, client in enumerate(run.clients, 1):
            drawn = [_glyph(cell, run, client, look) for cell in cells(client, axis, columns, run.interval)]
            name = look.paint("title", (run.name if number == 1 else "").ljust(name_room))
            lines.append(f"  {name}  {number:{number_room}}  {_painted(drawn, look)}")
        lines.append("")
    lines[-1:] = _axis_lines(axis, columns, margin, look)
    return [*lines, "", *_legend(runs, axis.end / columns, look)]


def _painted(drawn: Sequence[tuple[str, str]], look: Look) -> str:
    spans = groupby(drawn, key=lambda pair: pair[0])
    return "".join(look.paint(style, "".join(glyph for _, glyph in span)) for style, span in spans)


def _glyph(cell: Cell, run: ServerRun, client: ClientRun, look: Look) -> tuple[str, str]:
    """Return the style and the character of one cell."""
    if cell.kind == "end":
        outcome = run.outcome_of(client)
        return _OUTCOMES[outcome][0], look.glyphs.ends[outcome]
    if cell.kind == "tokens":
        levels = look.glyphs.levels
        level = ceil(cell.tokens * len(levels) / max(run.tokens, cell.tokens))
        return "good" if flows(run, client) else "bad", levels[level - 1]
    return _KIND_STYLES[cell.kind], look.glyphs.kinds[cell.kind]


def _axis_lines(axis: Axis, columns: int, margin: int, look: Look) -> list[str]:
    corner, mark, between = tuple(look.glyphs.axis)
    line, labels = [between] * columns, [" "] * (columns + 1)
    for tick in axis.ticks:
        at = min(round(axis.share(tick) * columns), columns - 1)
        line[at] = mark if at else corner
        text = f"{tick:g} s"
        if at + len(text) <= len(labels):
            labels[at : at + len(text)] = text
    return [" " * margin + look.paint("quiet", "".join(drawn).rstrip()) for drawn in (line, labels)]


def _legend(runs: Sequence[ServerRun], cell: float, look: Look) -> list[str]:
    """Explain the characters that occur."""
    glyphs = look.glyphs
    most = max(run.tokens for run in runs)
    outcomes = {run.outcome_of(client) for run in runs for client in run.clients}
    levels = f"{glyphs.levels[0]} to {glyphs.levels[-1]}: 1 to {most} tokens in a cell of {seconds_text(cell)}"
    entries = [
        *([levels] if most else []),
        f"{glyphs.kinds['waiting']} waiting",
        f"{glyphs.kinds['silence']} silence",
        *(f"{glyphs.ends[key]} {words}" for key, (_, words) in _OUTCOMES.items() if key in outcomes),
    ]
    glued = "   ".join(entry.replace(" ", "\xa0") for entry in entries)
    lines = textwrap.wrap(glued, look.width - 2, initial_indent="  ", subsequent_indent="  ")
    return [look.paint("quiet", line.replace("\xa0", " ")) for line in lines]
