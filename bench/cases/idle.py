"""What thousands of streams cost on which nothing is said but heartbeats."""

from __future__ import annotations

from typing import Any

from bench import cpu, descriptors
from bench.case import Case, Column, Row, Run, number
from bench.drive import load_server
from bench.load import Measured
from bench.processes import upstream
from bench.running import SERVER, circumstances, note, running
from bench.servers import Server
from bench.subjects import KIT, KIT_CHAT, NAIVE

STREAMS = 5000
HEARTBEAT_SECONDS = 15.0
_QUICK_STREAMS, _QUICK_HEARTBEAT_SECONDS = 1000, 3.0

_SPARE_DESCRIPTORS = 200

_SUBJECTS = (NAIVE, KIT, KIT_CHAT)
_QUICK_SUBJECTS = (KIT,)


def run(run: Run) -> list[Row]:
    wanted = run.streams[-1] if run.streams else _QUICK_STREAMS if run.quick else STREAMS
    heartbeat = _QUICK_HEARTBEAT_SECONDS if run.quick else HEARTBEAT_SECONDS
    streams = min(wanted, (descriptors.allow_all() - _SPARE_DESCRIPTORS) // 2)
    if streams < wanted:
        run.skip(f"{wanted:,} idle streams", f"a process may open too few files here (ulimit -Hn): {streams:,} instead")
    rows: list[Row] = []
    with upstream() as (url, pid):
        for name in _QUICK_SUBJECTS if run.quick else _SUBJECTS:
            run.say(f"idle, {streams} streams: {name}")
            with running(run, (name,), url, {"BENCH_HEARTBEAT": f"{heartbeat:g}"}) as servers:
                rows += [_measure(server, pid, streams, heartbeat) for server in servers]
    return rows


def _measure(server: Server, upstream_pid: int, streams: int, heartbeat: float) -> Row:
    """Measure for as long as a heartbeat is away: each stream has one in that time."""
    warm = ["--streams", "50", "--ramp", "0.2", "--warm-up", "0", "--seconds", "0.2"]
    load_server(server, upstream_pid, {"interval_ms": 50}, warm)
    before = cpu.memory(server.pid)
    arguments = ["--streams", str(streams), "--ramp", f"{streams / 400:g}", "--seconds", f"{heartbeat:g}"]
    wanted = {"interval_ms": 50, "silent": 1}
    measured = load_server(server, upstream_pid, wanted, arguments)
    return _row(server.subject.name, before, measured)


def _row(name: str, before: dict[str, int], measured: Measured) -> Row:
    grown = {kind: measured.memory["server"][kind] - before[kind] for kind in before}
    streams = max(measured.streams, 1)
    row: dict[str, Any] = {
        "subject": name,
        "streams": measured.streams,
        "pss_bytes": round(grown["pss"] / streams),
        "rss_bytes": round(grown["rss"] / streams),
        "core": round(measured.cpu["server"] / measured.seconds, 4),
        "bytes_per_stream": round(measured.bytes / streams, 1),
        **circumstances([measured]),
        "silent": 0,  # as they should be
    }
    return {**row, "note": note(row)}


def _kilobytes(value: float) -> str:
    return f"{value / 1000:.1f} KB"


IDLE = Case(
    "idle",
    "Idle streams: memory and CPU",
    f"{STREAMS:,} streams on one worker whose model says one token and then nothing, with a heartbeat of the kit every"
    f" {HEARTBEAT_SECONDS:g} s ({_QUICK_STREAMS:,} and {_QUICK_HEARTBEAT_SECONDS:g} s with `--quick`), measured for as"
    " long. The naive loop has no heartbeat.",
    (
        SERVER,
        Column("streams", "streams", number),
        Column("PSS for a stream", "pss_bytes", _kilobytes),
        Column("RSS", "rss_bytes", _kilobytes),
        Column("of a core", "core", lambda share: f"{share * 100:.1f} %"),
        Column("bytes to each", "bytes_per_stream", number),
        Column("note", "note"),
    ),
    run,
)
