"""How many short answers a worker can relay in a second."""

from __future__ import annotations

from typing import Any

from bench.case import Case, Column, Row, Run, microseconds, number, times
from bench.drive import load_server
from bench.load import Measured
from bench.processes import upstream
from bench.running import CIRCUMSTANCES, SERVER, Found, circumstances, in_turn, middle, note, ratio, running
from bench.subjects import SUBJECTS

CLIENTS = 64
TOKENS = 10
INTERVAL_MS = 5


def run(run: Run) -> list[Row]:
    seconds = f"{run.seconds or (1.0 if run.quick else 1.5):g}"
    arguments = ["--streams", str(CLIENTS), "--repeat", "--ramp", "0.3", "--warm-up", "0.5", "--seconds", seconds]
    wanted = {"interval_ms": INTERVAL_MS, "tokens": TOKENS, "at_once": 1}
    with upstream() as (url, pid), running(run, list(SUBJECTS), url) as servers:
        found = in_turn(
            run,
            "short streams",
            servers,
            run.rounds or (1 if run.quick else 2),
            lambda server: load_server(server, pid, wanted, arguments),
        )
    return [_row(name, found) for name in found]


def cost(measured: Measured) -> float | None:
    """Return the processor time of the server for each answer, in microseconds."""
    return measured.cpu["server"] / measured.finished * 1e6 if measured.finished else None


def _row(name: str, found: Found) -> Row:
    measured = found[name]
    row: dict[str, Any] = {
        "subject": name,
        "per_second": middle((one.finished / one.seconds for one in measured), 1),
        "cpu_us": middle(map(cost, measured)),
        "ratio": ratio(found, name, cost),
        **circumstances(measured),
        "silent": 0,  # some are asked just before the end
    }
    return {**row, "note": note(row)}


SHORT = Case(
    "short",
    "Short streams: how many a second",
    f"{CLIENTS} clients, each of which asks for an answer of {TOKENS} tokens {INTERVAL_MS} ms apart, again and again,"
    f" and by a new connection each time: at most {CLIENTS * 1000 // (INTERVAL_MS * (TOKENS - 1)):,} a second.",
    (
        SERVER,
        Column("streams a second", "per_second", number),
        Column("CPU for a stream", "cpu_us", microseconds),
        Column("of naive", "ratio", times),
        *CIRCUMSTANCES,
    ),
    run,
)
