"""How a terminal is written to: colours, characters, wrapped lines, and the axis below a timeline.

A line is laid out first and coloured last, in `Terminal.paint` and nowhere else, so that without colour it is
the same text.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Sequence

import click

from flaskstream.show.axis import Axis

_NARROWEST, _WIDEST = 80, 120
"""Columns that are used."""

_STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "quiet": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "doubt": {"fg": "yellow"},
    "plain": {},
}


_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: what a terminal obeys
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"  # what turns the text around it, or begins a line
)


def harmless(text: str, but: str = "") -> str:
    """Return what a peer said as text that no terminal obeys.

    Args:
        text: that.
        but: characters that are left as they are.
    """
    return _CONTROLS.sub(lambda one: one[0] if one[0] in but else one[0].encode("unicode_escape").decode(), text)


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


@dataclass(frozen=True)
class Terminal:
    """How to write: in colour or not, how wide, and with which characters."""

    color: bool
    width: int
    glyphs: Glyphs

    def paint(self, style: str, text: str) -> str:
        return click.style(text, **_STYLES[style]) if self.color and text.strip() else text

    def wrap(self, text: str, indent: str = "", hanging: str | None = None, room: int | None = None) -> list[str]:
        glued = re.sub(r"(?<=\d) (?=\w)", "\xa0", harmless(text, "\t\n\r"))  # a number stays with what it counts
        hanging = indent if hanging is None else hanging
        lines = textwrap.wrap(
            glued, room or self.width, initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False
        )
        return [line.replace("\xa0", " ") for line in lines]

    def painted(self, drawn: Sequence[tuple[str, str]]) -> str:
        """Return characters, each with its style, as one text."""
        spans = groupby(drawn, key=lambda pair: pair[0])
        return "".join(self.paint(style, "".join(glyph for _, glyph in span)) for style, span in spans)

    def axis_lines(self, axis: Axis, columns: int, margin: int) -> list[str]:
        """Return the two lines of an axis, drawn on so many columns behind a margin."""
        corner, mark, between = tuple(self.glyphs.axis)
        line, labels = [between] * columns, [" "] * (columns + 1)
        for tick in axis.ticks:
            at = min(round(axis.share(tick) * columns), columns - 1)
            line[at] = mark if at else corner
            text = f"{tick:g} s"
            if at + len(text) <= len(labels):
                labels[at : at + len(text)] = text
        return [" " * margin + self.paint("quiet", "".join(drawn).rstrip()) for drawn in (line, labels)]

    def text(self, sections: Sequence[Sequence[str]]) -> str:
        """Return the sections' lines as one text, an empty line between two; nothing but ASCII where that is wanted."""
        text = "\n\n".join("\n".join(line.rstrip() for line in section) for section in sections) + "\n"
        return text if self.glyphs is UNICODE else text.encode("ascii", "replace").decode()


def terminal_for(color: bool, width: int, unicode: bool) -> Terminal:
    """Return how to write.

    Args:
        color: with ANSI colours.
        width: of the terminal, in columns; used from 80 to 120.
        unicode: it can show more than ASCII.
    """
    return Terminal(color, min(max(width, _NARROWEST), _WIDEST), UNICODE if unicode else ASCII)
