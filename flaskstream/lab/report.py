"""The comparison for a terminal and for a program: text and JSON from `lab.results`. It only prints."""

from __future__ import annotations

from typing import Any, Sequence

from flaskstream.lab.drawing import timelines
from flaskstream.lab.figures import FAULT_FIGURES, MODE_FIGURES, count_text, notes, run_words
from flaskstream.lab.results import ClientRun, Comparison, FaultLine, ServerRun
from flaskstream.show.terminal import Terminal, terminal_for

SCHEMA_VERSION = 1

_LABEL_ROOM = 12


def text_report(comparison: Comparison, *, color: bool, width: int, unicode: bool) -> str:
    """Return the comparison for a person in a terminal; the verdict stands last.

    Args:
        comparison: what was measured.
        color: with ANSI colours.
        width: of the terminal, in columns; used from 80 to 120.
        unicode: the terminal can show more than ASCII; without it, nothing but ASCII is returned.
    """
    terminal = terminal_for(color, width, unicode)
    sections = [
        _opening(comparison, terminal),
        _modes(comparison, terminal),
        timelines(comparison.fixed, comparison.broken, terminal),
        *_faults(comparison.faults, terminal),
        _verdict(comparison, terminal),
    ]
    return terminal.text(sections)


def _opening(comparison: Comparison, terminal: Terminal) -> list[str]:
    fixed, broken = comparison.fixed, comparison.broken
    lines = [terminal.paint("title", "flaskstream compare") + f"  {run_words(fixed)}"]
    machine = comparison.machine.replace(" ", "\xa0").replace(",\xa0", ", ")  # wraps between releases only
    lines += [terminal.paint("quiet", line) for line in terminal.wrap(machine)]
    if broken.faults:
        faults = f"broken = {', '.join(broken.faults)}"
        lines += [terminal.paint("quiet", line) for line in terminal.wrap(faults, hanging=" " * len("broken = "))]
    return lines


def _modes(comparison: Comparison, terminal: Terminal) -> list[str]:
    """The two modes side by side, one figure in a row."""
    label_room = 18
    room = min((terminal.width - label_room) // 2 - 2, 36)
    fixed, broken = comparison.fixed, comparison.broken
    lines = [
        " " * label_room
        + terminal.paint("title", fixed.name.ljust(room + 2))
        + terminal.paint("title", broken.name.ljust(room))
    ]
    for figure in MODE_FIGURES:
        style = "bad" if figure.worse(broken, fixed) else "plain"
        left, right = (terminal.wrap(figure.text(run), room=room) for run in (fixed, broken))
        for n in range(max(len(left), len(right))):
            label = figure.label if n == 0 else ""
            cell = left[n] if n < len(left) else ""
            beside = right[n] if n < len(right) else ""
            lines.append(f"  {label:{label_room - 2}}{cell:{room + 2}}{terminal.paint(style, beside)}")
    return lines


def _faults(faults: Sequence[FaultLine], terminal: Terminal) -> list[list[str]]:
    if not faults:
        return []
    shown = sum(fault.shows for fault in faults)
    title = terminal.paint("title", "What made the difference")
    heading = f"{title}  each mistake switched on alone; {shown} of {len(faults)} showed"
    return [[heading], *(_fault(fault, terminal) for fault in faults)]


def _fault(fault: FaultLine, terminal: Terminal) -> list[str]:
    state = "shows" if fault.shows else "did not show"
    rule = terminal.glyphs.rule * max(terminal.width - len(fault.name) - len(state) - 4, 1)
    style = "plain" if fault.shows else "doubt"
    lines = [f"{terminal.paint('title', fault.name)}  {terminal.paint('quiet', rule)}  {terminal.paint(style, state)}"]
    lines += terminal.wrap(fault.sentence, "  ")
    lines += ["", *_fault_figures(fault, terminal), ""]
    for label, text in (("evidence", fault.evidence), *notes(fault.faulty, fault.control), ("cure", fault.cure)):
        first, *rest = terminal.wrap(text, " " * _LABEL_ROOM) or [""]
        lines += [f"  {terminal.paint('quiet', label.ljust(_LABEL_ROOM - 2))}{first[_LABEL_ROOM:]}", *rest]
    return lines


def _fault_figures(fault: FaultLine, terminal: Terminal) -> list[str]:
    """With the fault, and without it where that differs."""
    rooms = [max(len(figure.label), 8) + 2 for figure in FAULT_FIGURES]
    rooms[0] -= 2
    header, faulty, control = (text.ljust(_LABEL_ROOM) for text in ("", "  with it", "  without"))
    for figure, room in zip(FAULT_FIGURES, rooms):
        differs = figure.differs(fault.faulty, fault.control)
        header += figure.label.rjust(room)
        worse = figure.worse(fault.faulty, fault.control)
        faulty += terminal.paint("bad" if worse else "plain", figure.text(fault.faulty).rjust(room))
        beside = figure.text(fault.control) if differs else "same"
        control += terminal.paint("plain" if differs else "quiet", beside.rjust(room))
    return [terminal.paint("quiet", header), faulty, control]


def _verdict(comparison: Comparison, terminal: Terminal) -> list[str]:
    verdict = comparison.verdict
    ends = terminal.glyphs.ends
    style, mark = ("good", ends["complete"]) if verdict.ok else ("bad", ends["cut"])
    took = f"took {comparison.seconds:.0f} s"
    rule = terminal.glyphs.rule * (terminal.width - len(took) - 2)
    lines = [terminal.paint("quiet", f"{rule}  {took}"), terminal.paint(style, f"{mark} {verdict.line}")]
    for reason in verdict.reasons:
        lines += terminal.wrap(reason, "  ", "    ")
    silent = [fault.name for fault in comparison.faults if not fault.shows]
    if silent:
        who = count_text(len(silent), "fault")
        lines += [
            terminal.paint("doubt", line)
            for line in terminal.wrap(f"{who} did not show: {', '.join(silent)}.", "  ", "    ")
        ]
    return lines


def json_report(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as values that JSON can carry; every time is in milliseconds."""
    verdict = comparison.verdict
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": {"ok": verdict.ok, "line": verdict.line, "reasons": list(verdict.reasons)},
        "machine": comparison.machine,
        "took_ms": _ms(comparison.seconds),
        "fixed": _run_json(comparison.fixed),
        "broken": _run_json(comparison.broken),
        "faults": [_fault_json(fault) for fault in comparison.faults],
    }


def _fault_json(fault: FaultLine) -> dict[str, Any]:
    return {
        "name": fault.name,
        "cause": fault.cause,
        "sentence": fault.sentence,
        "shows": fault.shows,
        "evidence": fault.evidence,
        "cure": fault.cure,
        "faulty": _run_json(fault.faulty),
        "control": _run_json(fault.control),
    }


def _run_json(run: ServerRun) -> dict[str, Any]:
    began = min((client.sent_at for client in run.clients), default=0.0)
    return {
        "name": run.name,
        "faults": list(run.faults),
        "tokens": run.tokens,
        "interval_ms": _ms(run.interval),
        "first_token_ms": _ms(run.first_token),
        "slowest_first_token_ms": _ms(run.slowest_first_token),
        "without_token": run.without_token,
        "median_gap_ms": _ms(run.median_gap),
        "largest_gap_ms": _ms(run.largest_gap),
        "bursts": run.bursts,
        "complete": run.complete,
        "cut": run.cut,
        "looked_whole": run.looked_whole,
        "left": run.left,
        "debug": {
            "timing": run.debug_timing,
            "median_lag_ms": _ms(run.median_debug_lag),
            "largest_lag_ms": _ms(run.largest_debug_lag),
            "missing": run.debug_missing,
            "lags_ms": [_ms(lag) for lag in run.debug_lags],
        },
        "upstream_tokens_after_leaving": run.upstream_tokens_after_leaving,
        "clients": [_client_json(client, began) for client in run.clients],
    }


def _client_json(client: ClientRun, began: float) -> dict[str, Any]:
    return {
        "status": client.status,
        "sent_ms": _ms(client.sent_at - began),
        "first_token_ms": _ms(client.first_token),
        "median_gap_ms": _ms(client.median_gap),
        "largest_gap_ms": _ms(client.largest_gap),
        "ended": client.ended,
        "ended_ms": _ms(client.ended_at),
        "code": client.code,
        "arrivals_ms": [_ms(arrival) for arrival in client.arrivals],
        "headers": [list(header) for header in client.headers],
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
