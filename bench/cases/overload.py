"""What becomes of the streams when there are twice as many tokens as the worker can carry."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from bench.case import Case, Column, Row, Run, milliseconds, number, percent, times
from bench.cases.relay import cost
from bench.cores import on_cores, spinning
from bench.drive import load_server
from bench.load import Measured
from bench.processes import upstream
from bench.running import SERVER, circumstances, headroom_text, note, running
from bench.servers import Server
from bench.subjects import KIT, KIT_CHAT, NAIVE, NODE

FACTOR = 2.0
"""So many times what the worker can carry."""

SPINNERS = 2
"""Programs that share the worker's core: with a whole one it carries more than the load generator and the upstream
could offer twice. A container with a third of a core is no rarity."""

CALM_STREAMS = 100
INTERVAL_MS = 50

_SUBJECTS = (NAIVE, KIT, KIT_CHAT, NODE)
_QUICK_SUBJECTS = (KIT,)


def run(run: Run) -> list[Row]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        run.skip("overload", "the worker needs a core for itself, and there is one only")
        return []
    rows: list[Row] = []
    with on_cores(cores[:-1]), upstream() as (url, pid):
        for name in _QUICK_SUBJECTS if run.quick else _SUBJECTS:
            rows += _measure(run, name, url, pid, cores[-1])
    return rows


def _measure(run: Run, name: str, url: str, upstream_pid: int, core: int) -> list[Row]:
    """Measure what a token costs while there is enough of the core, and then what happens when there is not."""
    with contextlib.ExitStack() as stack:
        with on_cores({core}):
            servers = stack.enter_context(running(run, (name,), url))
        stack.enter_context(spinning(core, SPINNERS))
        rows = []
        for server in servers:
            run.say(f"overload: {name}")
            calm = _load(server, upstream_pid, CALM_STREAMS, run)
            streams = round(FACTOR * _carries(calm) * INTERVAL_MS / 1000)
            rows.append(_row(name, streams, calm, _load(server, upstream_pid, streams, run)))
        return rows


def _load(server: Server, upstream_pid: int, streams: int, run: Run) -> Measured:
    warm_up, seconds = (1.0, 2.0) if run.quick else (3.0, 4.0)
    arguments = ["--streams", str(streams), "--ramp", f"{0.5 + streams / 400:g}"]
    arguments += ["--warm-up", f"{warm_up:g}", "--seconds", f"{run.seconds or seconds:g}"]
    return load_server(server, upstream_pid, {"interval_ms": INTERVAL_MS}, arguments)


def _carries(calm: Measured) -> float:
    """Return how many tokens a second the worker can carry with its share of the core, each by itself."""
    return 1e6 / (cost(calm) or 1e6) / (SPINNERS + 1)


def _row(name: str, streams: int, calm: Measured, measured: Measured) -> Row:
    share = measured.cpu["server"] / measured.seconds
    row: dict[str, Any] = {
        "subject": name,
        "streams": streams,
        "calm_cpu_us": cost(calm),
        "offered_per_second": round(streams * 1000 / INTERVAL_MS),
        "tokens_per_second": round(measured.tokens / measured.seconds),
        "times_carried": round(streams * 1000 / INTERVAL_MS * (cost(calm) or 0) / 1e6 / share, 2),
        "p50_ms": measured.p50_ms,
        "p99_ms": measured.p99_ms,
        "max_ms": measured.max_ms,
        "fairness": measured.fairness,
        "starved": measured.starved,
        "tokens_per_read": round(measured.tokens / max(measured.reads, 1), 2),
        **circumstances([measured]),
    }
    return {**row, "note": note(row)}


OVERLOAD = Case(
    "overload",
    "Overload: twice what the worker can carry",
    f"Streams of 20 tokens a second. The worker shares one core with {SPINNERS} programs that compute. Offered: beside"
    " what it could carry with the share that it got, at the cost of a token when it is calm. Slowest: the p99 of the"
    " slowest stream beside that of the fastest. Merged: tokens that the client reads at a time.",
    (
        SERVER,
        Column("streams", "streams", number),
        Column("tokens a second", "tokens_per_second", number),
        Column("offered", "times_carried", times),
        Column("p50", "p50_ms", milliseconds),
        Column("p99", "p99_ms", milliseconds),
        Column("max", "max_ms", milliseconds),
        Column("slowest", "fairness", times),
        Column("merged", "tokens_per_read", times),
        Column("core", "busy", percent),
        Column("headroom", "headroom", headroom_text),
        Column("note", "note"),
    ),
    run,
)
