"""What an event costs that a view makes itself."""

from __future__ import annotations

from typing import Any

from bench.case import Case, Column, Row, Run, microseconds, milliseconds, times
from bench.cases.relay import cost
from bench.drive import load
from bench.load import Measured
from bench.running import CIRCUMSTANCES, SERVER, Found, circumstances, in_turn, middle, note, ratio, running
from bench.servers import Server
from bench.subjects import KIT, NAIVE, STARLETTE

STREAMS = 300
NOWHERE = "http://127.0.0.1:9/v1"


def run(run: Run) -> list[Row]:
    with running(run, (NAIVE, KIT, STARLETTE), NOWHERE) as servers:
        found = in_turn(
            run, "emit", servers, run.rounds or (1 if run.quick else 3), lambda server: _measure(run, server)
        )
    return [_row(name, found) for name in found]


def _measure(run: Run, server: Server) -> Measured:
    seconds = run.seconds or (1.5 if run.quick else 2.5)
    arguments = ["--streams", str(STREAMS), "--ramp", "1", "--warm-up", "0.7", "--seconds", f"{seconds:g}"]
    return load(server.at("/emit"), {"server": server.pid}, arguments)


def _row(name: str, found: Found) -> Row:
    measured = found[name]
    row: dict[str, Any] = {
        "streams": STREAMS,
        "subject": name,
        "cpu_us": middle(map(cost, measured)),
        "ratio": ratio(found, name, cost),
        "p50_ms": middle(one.p50_ms for one in measured),
        "p99_ms": middle(one.p99_ms for one in measured),
        **circumstances(measured),
    }
    return {**row, "note": note(row)}


EMIT = Case(
    "emit",
    "Emitting: what an event costs that a view makes itself",
    f"{STREAMS} streams of a view that yields 20 events a second: a plain generator beside `event_stream`, and"
    " sse-starlette. The times are from the making of an event to the client's reading.",
    (
        SERVER,
        Column("CPU for an event", "cpu_us", microseconds),
        Column("of naive", "ratio", times),
        Column("p50", "p50_ms", milliseconds),
        Column("p99", "p99_ms", milliseconds),
        *CIRCUMSTANCES,
    ),
    run,
)
