"""The diagnosis for a terminal: what each hop does, why, and what to change. It only prints."""

from __future__ import annotations

from math import ceil

from flaskstream.doctor.diagnosis import Cause, Diagnosis, Hop
from flaskstream.doctor.looks import Look
from flaskstream.doctor.shapes import SINGLY_SHARE, shape_of
from flaskstream.show.axis import Axis
from flaskstream.show.terminal import Terminal, harmless, terminal_for

_MARGIN = 4
_LABEL_ROOM = 8


def text_report(diagnosis: Diagnosis, *, color: bool, width: int, unicode: bool, quiet: bool = False) -> str:
    """Return the diagnosis for a person; the verdict stands last.

    Args:
        diagnosis: what was found.
        color, width, unicode: see `terminal_for`.
        quiet: the verdict alone.
    """
    terminal = terminal_for(color, width, unicode)
    if quiet:
        return terminal.text([_verdict(diagnosis, terminal)])
    count = len(diagnosis.hops)
    title = terminal.paint("title", "flaskstream doctor") + (f"  {count} hops, outermost first" if count > 1 else "")
    columns = terminal.width - _MARGIN - 1
    looks = [_shown(hop) for hop in diagnosis.hops]
    axis = Axis.over([max([look.ended_at, *(tick.came for tick in look.ticks)]) for look in looks], columns // 8)
    hops = [_hop(n, hop, axis, columns, terminal) for n, hop in enumerate(diagnosis.hops, 1)]
    return terminal.text(
        [[title], *hops, terminal.axis_lines(axis, columns, _MARGIN), _legend(terminal), _verdict(diagnosis, terminal)]
    )


def _shown(hop: Hop) -> Look:
    """Return the look that shows the verdict; of the first one, if that is whole again at another pace."""
    look = hop.evidence.looks.get(hop.verdict.look, hop.evidence.first)
    return look if look.variant.interval_ms == hop.evidence.first.variant.interval_ms else hop.evidence.first


def _hop(number: int, hop: Hop, axis: Axis, columns: int, terminal: Terminal) -> list[str]:
    evidence, verdict = hop.evidence, hop.verdict
    style, mark = _style_and_mark(hop, terminal)
    what = ", ".join(filter(None, (evidence.product, evidence.server)))
    lines = [f"{number:<{_MARGIN}}{terminal.paint('title', evidence.url)}" + (f"  ({harmless(what)})" if what else "")]
    if _shown(hop).ticks:
        lines += [" " * _MARGIN + _timeline(_shown(hop), axis, columns, terminal)]
    name = "" if verdict.is_inherited else f"{verdict.name}: "
    said = terminal.wrap(f"{mark} {name}{verdict.sentence}", " " * _MARGIN, " " * (_MARGIN + 2))
    lines += [terminal.paint(style, line) for line in said]
    for cause in hop.causes:
        lines += ["", *_cause(cause, terminal)]
    for note in hop.notes:
        lines += [terminal.paint("doubt", line) for line in terminal.wrap(f"note: {note}", " " * _MARGIN)]
    return lines


def _style_and_mark(hop: Hop, terminal: Terminal) -> tuple[str, str]:
    if hop.verdict.is_inherited:  # neither at fault, nor does its client get a stream
        return "doubt", terminal.glyphs.ends["left"]
    return ("bad", terminal.glyphs.ends["cut"]) if hop.is_offender else ("good", terminal.glyphs.ends["complete"])


def _cause(cause: Cause, terminal: Terminal) -> list[str]:
    lines = [" " * _MARGIN + terminal.paint("title", cause.name) + f"  {cause.confidence:.0%} sure"]
    told = (("seen", cause.evidence), ("cure", cause.cure), ("to tell", cause.would_tell))
    for label, text in told:
        if text:
            room = " " * (_MARGIN + _LABEL_ROOM)
            first, *rest = terminal.wrap(text, room)
            lines += [" " * _MARGIN + terminal.paint("quiet", label.ljust(_LABEL_ROOM)) + first[len(room) :], *rest]
    lines += [" " * (_MARGIN + _LABEL_ROOM) + line for line in cause.snippet.splitlines()]
    return lines


def _timeline(look: Look, axis: Axis, columns: int, terminal: Terminal) -> str:
    """Return when the ticks of a look came, a character for each cell of the axis."""
    counts = [0] * columns
    for tick in look.ticks:
        counts[min(int(axis.share(tick.came) * columns), columns - 1)] += 1
    last = min(int(axis.share(look.ended_at) * columns), columns - 1)
    is_singly = len(look.bursts) >= SINGLY_SHARE * len(look.ticks)
    style = "good" if is_singly or shape_of(look).kind == "streams" else "bad"
    levels, kinds = terminal.glyphs.levels, terminal.glyphs.kinds
    most = max([len(levels), *counts])
    drawn, has_begun = [], False
    for count in counts[: last + 1]:
        has_begun = has_begun or count > 0
        if count:
            drawn.append((style, levels[ceil(count * len(levels) / most) - 1]))
        else:
            drawn.append(("quiet", kinds["pace" if has_begun else "waiting"]))
    end = ("good", "complete") if look.is_whole else ("bad", "cut")
    return terminal.painted([*drawn, (end[0], terminal.glyphs.ends[end[1]])])


def _legend(terminal: Terminal) -> list[str]:
    glyphs = terminal.glyphs
    shown = (
        f"{glyphs.levels[0]} to {glyphs.levels[-1]}: one tick to many",
        f"{glyphs.kinds['waiting']} waiting for the first",
        f"{glyphs.ends['complete']} whole",
        f"{glyphs.ends['cut']} cut",
    )
    return [" " * _MARGIN + terminal.paint("quiet", "   ".join(shown))]


def _has_refusals(diagnosis: Diagnosis) -> bool:
    looks = [look for hop in diagnosis.hops for look in hop.evidence.looks.values()]
    return any(look.status is not None and not look.is_answer for look in looks)


def _verdict(diagnosis: Diagnosis, terminal: Terminal) -> list[str]:
    took = f"took {diagnosis.seconds:.0f} s"
    rule = terminal.glyphs.rule * (terminal.width - len(took) - 2)
    lines = [terminal.paint("quiet", f"{rule}  {took}")]
    if not diagnosis.offenders:
        told = (
            "Every hop streams, but some requests were refused." if _has_refusals(diagnosis) else "Every hop streams."
        )
        return [*lines, terminal.paint("good", f"{terminal.glyphs.ends['complete']} {told}")]
    for n in diagnosis.offenders:
        hop = diagnosis.hops[n]
        name, cure = (hop.causes[0].name, hop.causes[0].cure) if hop.causes else (hop.verdict.name, "")
        what = hop.verdict.name if name in ("unknown", hop.verdict.name) else f"{hop.verdict.name}, {name}"
        lines.append(terminal.paint("bad", f"{terminal.glyphs.ends['cut']} {hop.evidence.url}: {what}"))
        lines += terminal.wrap(cure, "  ") if cure else []
    return lines
