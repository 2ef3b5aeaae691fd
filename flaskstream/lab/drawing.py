"""The timelines of the comparison, drawn for a terminal."""

from __future__ import annotations

import textwrap
from math import ceil
from typing import Sequence

from flaskstream.lab.figures import seconds_text
from flaskstream.lab.judge import flows
from flaskstream.lab.runs import ClientRun, ServerRun
from flaskstream.lab.timeline import Cell, axis_over, cells
from flaskstream.show.terminal import Terminal

_KIND_STYLES = {"waiting": "quiet", "silence": "doubt", "pace": "plain"}
_OUTCOMES = {
    "complete": ("good", "done"),
    "cut": ("bad", "cut"),
    "looked_whole": ("bad", "done with tokens missing"),
    "left": ("plain", "left"),
}


def timelines(fixed: ServerRun, broken: ServerRun, terminal: Terminal) -> list[str]:
    """Return the lines that show each client of both modes on one time axis."""
    runs = (fixed, broken)
    number_room = len(str(max(len(run.clients) for run in runs)))
    name_room = max(len(run.name) for run in runs)
    margin = 2 + name_room + 2 + number_room + 2
    columns = terminal.width - margin - 1
    axis = axis_over(runs, most_ticks=columns // 8)
    lines = []
    for run in runs:
        if not run.clients:
            lines.append(f"  {terminal.paint('title', run.name.ljust(name_room))}  no client was driven")
        for number, client in enumerate(run.clients, 1):
            drawn = [_glyph(cell, run, client, terminal) for cell in cells(client, axis, columns, run.interval)]
            name = terminal.paint("title", (run.name if number == 1 else "").ljust(name_room))
            lines.append(f"  {name}  {number:{number_room}}  {terminal.painted(drawn)}")
        lines.append("")
    lines[-1:] = terminal.axis_lines(axis, columns, margin)
    return [*lines, "", *_legend(runs, axis.end / columns, terminal)]


def _glyph(cell: Cell, run: ServerRun, client: ClientRun, terminal: Terminal) -> tuple[str, str]:
    """Return the style and the character of one cell."""
    if cell.kind == "end":
        outcome = run.outcome_of(client)
        return _OUTCOMES[outcome][0], terminal.glyphs.ends[outcome]
    if cell.kind == "tokens":
        levels = terminal.glyphs.levels
        level = ceil(cell.tokens * len(levels) / max(run.tokens, cell.tokens))
        return "good" if flows(run, client) else "bad", levels[level - 1]
    return _KIND_STYLES[cell.kind], terminal.glyphs.kinds[cell.kind]


def _legend(runs: Sequence[ServerRun], cell: float, terminal: Terminal) -> list[str]:
    """Explain the characters that occur."""
    glyphs = terminal.glyphs
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
    lines = textwrap.wrap(glued, terminal.width - 2, initial_indent="  ", subsequent_indent="  ")
    return [terminal.paint("quiet", line.replace("\xa0", " ")) for line in lines]
