"""The check for a terminal and for a program: text and JSON. It only prints."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from flaskstream.doctor.check.examine import Checked
from flaskstream.doctor.check.findings import FAULT, HOLDS, NOTE, WARNING, Finding
from flaskstream.doctor.check.judge import CANNOT_TELL, HELD, STREAMS, Verdict
from flaskstream.doctor.check.observation import Layer, Run, as_place
from flaskstream.doctor.check.places import FRAMEWORK, Place, kind_of
from flaskstream.doctor.check.rules_reading import FRAMINGS, PROMPT, WAYS, how_read, library
from flaskstream.show.terminal import Terminal, terminal_for

SCHEMA_VERSION = 1

_LABEL_ROOM = 12
_STYLES = {
    HOLDS: "bad",
    FAULT: "bad",
    WARNING: "doubt",
    NOTE: "quiet",
    HELD: "bad",
    STREAMS: "good",
    CANNOT_TELL: "doubt",
}


def text_report(checked: Checked, *, color: bool, width: int, unicode: bool) -> str:
    """Return the check for a person in a terminal; the verdict stands last.

    Args:
        checked: what was asked and found.
        color, width, unicode: see `terminal_for`.
    """
    look = terminal_for(color, width, unicode)
    sections = [
        _opening(checked, look),
        _way(checked.seen.run, look),
        _routes(checked, look),
        _reading(checked, look),
        *(_finding(finding, look) for finding in checked.verdict.findings),
        _verdict(checked, look),
    ]
    return look.text([section for section in sections if section])


def _opening(checked: Checked, look: Terminal) -> list[str]:
    question = checked.question
    asked = f"{question.method} {question.path}" if question.path else "no PATH"
    lines = [look.paint("title", "flaskstream check") + f"  {question.target or 'FLASK_APP'}  {asked}"]
    return lines + [look.paint("quiet", line) for line in look.wrap(_loaded(checked))]


def _loaded(checked: Checked) -> str:
    loaded = checked.seen.one("loaded")
    if not loaded:
        return "not loaded"
    versions = ", ".join(f"{name} {version}" for name, version in loaded["versions"].items())
    how = "loaded without gunicorn"
    if loaded["worker"]:
        how = f"loaded as by gunicorn -c {loaded['config']}, {loaded['worker']} worker"
    patched = f"gevent patched by the {loaded['patched_by']}" if loaded["patched_by"] else "nothing patched"
    return f"{versions}; {how}, {patched}"


# The way of the body.


def _way(run: Run | None, look: Terminal) -> list[str]:
    """One line for each that had the body in its hands, from the view outwards, with the pieces that left it."""
    if run is None or not run.status:
        return []
    rows = []
    if run.view is not None:
        pieces = str(run.source.pieces) if run.source else "one body"
        rows.append(("view", run.made["endpoint"] or run.view.function, str(run.view), pieces))
    rows += [
        ("hook", line["name"], str(as_place(line["place"]) or ""), "one body")
        for line in run.all("hook")
        if not line["streamed"]
    ]
    shown = [layer for layer in run.layers if layer.of != "view" and not _is_flask(layer)]
    rows += [
        ("hook" if layer.of == "hook" else "middleware", layer.name, str(layer.place or ""), str(layer.pieces))
        for layer in shown
    ]
    sent = str(run.layers[-1].pieces) if run.layers else "none"
    rows.append(("sent", run.status, _header(run, "content-encoding"), sent))
    head = look.paint("title", "The way of the body") + "  outwards from the view, and the pieces that left each"
    return [head, *_columns(rows)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows]


def _is_flask(layer: Layer) -> bool:
    return layer.place is not None and kind_of(layer.place.file) == FRAMEWORK and layer.name.startswith("Flask")


def _header(run: Run, name: str) -> str:
    return next((value for key, value in run.headers if key.lower() == name), "")


def _routes(checked: Checked, look: Terminal) -> list[str]:
    """Without a PATH: the routes that could be given."""
    if checked.question.path:
        return []
    routes = checked.seen.all("route")
    if not routes:
        return []
    width = max(len(line["rule"]) for line in routes)
    lines = [look.paint("title", "GET routes without parameters") + "  any of them can be the PATH"]
    for line in sorted(routes, key=lambda line: (not line["streams"], line["rule"])):
        why = f"  looks like a stream: {line['streams']}" if line["streams"] else ""
        lines.append(f"  {line['rule'].ljust(width)}  {as_place(line['place']) or ''}{why}")
    return lines


def _reading(checked: Checked, look: Terminal) -> list[str]:
    """Which ways to read an upstream hand over what they have: a row for each way, a column for each framing."""
    read = how_read(checked.seen)
    if not read:
        return []
    words = {True: "as it comes", False: "held", None: "?"}
    rows = [("", *FRAMINGS.values())]
    rows += [(written, *(words[read.get((way, framing))] for framing in FRAMINGS)) for way, written in WAYS.items()]
    run_on = [look.paint("quiet", line) for line in look.wrap(library(checked.seen), "  ")]
    lines = [look.paint("title", "How an upstream is read here"), *run_on, *_columns(rows)]
    if _is_as_released(read):
        lines += [look.paint("quiet", line) for line in look.wrap(_AS_RELEASED, "  ")]
    return lines


_AS_RELEASED = "Without chunks requests waits for the end, here as everywhere; flaskstream.Upstream does not."


def _is_as_released(read: Mapping[tuple[str, str], bool]) -> bool:
    return all(prompt == (pair in PROMPT) for pair, prompt in read.items())


# What was found.


def _finding(finding: Finding, look: Terminal) -> list[str]:
    severity = finding.row.severity
    rule = look.glyphs.rule * max(look.width - len(finding.code) - len(severity) - 4, 1)
    lines = [
        f"{look.paint('title', finding.code)}  {look.paint('quiet', rule)}  {look.paint(_STYLES[severity], severity)}",
        *look.wrap(finding.sentence, "  "),
    ]
    where = [f"{place} in {place.function}" for place in finding.places]
    for label, texts in (("where", where), ("cure", [finding.row.cure])):
        for text in texts:
            first, *rest = look.wrap(text, " " * _LABEL_ROOM)
            lines += [f"  {look.paint('quiet', label.ljust(_LABEL_ROOM - 2))}{first[_LABEL_ROOM:]}", *rest]
            label = ""
    return lines


def _verdict(checked: Checked, look: Terminal) -> list[str]:
    verdict = checked.verdict
    ends = look.glyphs.ends
    mark = {STREAMS: ends["complete"], HELD: ends["cut"]}.get(verdict.name, "?")
    lines = [look.paint("quiet", look.glyphs.rule * look.width)]
    first, *rest = look.wrap(f"{mark} {verdict.sentence}", "", "  ")
    lines += [look.paint(_STYLES[verdict.name], line) for line in (first, *rest)]
    if checked.without_coding is not None:
        lines += look.wrap(f"Without Accept-Encoding: {_small(checked.without_coding)}", "  ")
    if not checked.question.path and checked.seen.one("found"):
        lines += look.wrap("A view may have effects, so none is run unasked: give a PATH.", "  ")
    return lines


def _small(verdict: Verdict) -> str:
    return verdict.sentence[:1].lower() + verdict.sentence[1:]


# For a program.


def json_report(checked: Checked) -> dict[str, Any]:
    """Return the check as values that JSON can carry."""
    question, seen, run = checked.question, checked.seen, checked.seen.run
    return {
        "schema_version": SCHEMA_VERSION,
        "target": question.target,
        "method": question.method,
        "path": question.path,
        "verdict": checked.verdict.name,
        "sentence": checked.verdict.sentence,
        "without_coding": checked.without_coding and checked.without_coding.name,
        "loaded": {key: value for key, value in seen.one("loaded").items() if key not in ("kind", "ms")},
        "findings": [_finding_json(finding) for finding in checked.verdict.findings],
        "reading": {
            "versions": seen.one("reader").get("versions", {}),
            "installed": seen.one("reader").get("flavours", []),
            "ways": [
                {"way": way, "framing": framing, "as_it_comes": prompt}
                for (way, framing), prompt in how_read(seen).items()
            ],
        },
        "run": run and _run_json(run),
        "routes": [
            {
                "rule": line["rule"],
                "place": _place_json(as_place(line["place"])),
                "looks_like_a_stream": line["streams"],
            }
            for line in seen.all("route")
        ],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.row.severity,
        "cause": finding.row.cause or None,
        "sentence": finding.sentence,
        "cure": finding.row.cure,
        "places": [_place_json(place) for place in finding.places],
    }


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "accept_encoding": run.codings,
        "status": run.status,
        "headers": [list(header) for header in run.headers],
        "view": _place_json(run.view),
        "layers": [
            {
                "of": layer.of,
                "name": layer.name,
                "place": _place_json(layer.place),
                "pieces": layer.pieces,
                "coding": layer.coding or None,
                "was_closed": layer.was_closed and not layer.was_left_open,
            }
            for layer in run.layers
        ],
    }


def _place_json(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {"file": place.file, "line": place.line, "function": place.function}
