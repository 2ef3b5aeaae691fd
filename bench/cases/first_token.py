"""How much later the first token is: an app is asked, asks its model, and passes the first one on."""

from __future__ import annotations

from typing import Any

from bench.case import Case, Column, Row, Run, milliseconds, number
from bench.drive import body, load, load_server
from bench.load import Measured
from bench.processes import upstream
from bench.running import SERVER, circumstances, in_turn, middle, note, running
from bench.subjects import DIRECT, SUBJECTS

_WANTED = {"interval_ms": 50, "tokens": 1, "at_once": 1}


def run(run: Run) -> list[Row]:
    seconds = f"{run.seconds or (0.5 if run.quick else 1.0):g}"
    arguments = ["--streams", "1", "--repeat", "--ramp", "0.1", "--warm-up", "0.5", "--seconds", seconds]
    with upstream() as (url, pid), running(run, list(SUBJECTS), url) as servers:
        straight = [f"--body={body(**_WANTED)}", *arguments]
        direct = load(f"{url}/chat/completions", {"server": pid}, straight)
        found = in_turn(
            run,
            "first token",
            servers,
            run.rounds or (1 if run.quick else 3),
            lambda server: load_server(server, pid, _WANTED, arguments),
        )
    return [_row(name, measured, direct) for name, measured in {DIRECT: [direct], **found}.items()]


def _row(name: str, measured: list[Measured], direct: Measured) -> Row:
    p50 = middle(one.first_ms[0] if one.first_ms else None for one in measured)
    row: dict[str, Any] = {
        "subject": name,
        "p50_ms": p50,
        "p99_ms": middle(one.first_ms[1] if one.first_ms else None for one in measured),
        "added_ms": None if name == DIRECT or p50 is None else round(p50 - direct.first_ms[0], 3),
        "streams": sum(one.finished for one in measured),
        **circumstances(measured),
        "silent": 0,  # some are asked just before the end
    }
    return {**row, "note": note(row)}


FIRST_TOKEN = Case(
    "first_token",
    "First token: how much later it is",
    "One client after another asks for an answer whose first token the model sends at once. From the request to the"
    " first token at the client; added: so much more than from the model itself.",
    (
        SERVER,
        Column("streams", "streams", number),
        Column("p50", "p50_ms", milliseconds),
        Column("p99", "p99_ms", milliseconds),
        Column("added", "added_ms", milliseconds),
        Column("note", "note"),
    ),
    run,
)
