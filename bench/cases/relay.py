"""What a token costs that a model has said, and how much later it is with the client."""

from __future__ import annotations

from functools import partial
from typing import Any, Sequence

from bench.case import Case, Column, Row, Run, microseconds, milliseconds, number, times
from bench.drive import body, load, load_server
from bench.load import Measured
from bench.processes import upstream
from bench.running import (
    CIRCUMSTANCES,
    SERVER,
    Found,
    circumstances,
    in_turn,
    middle,
    note,
    ratio,
    running,
)
from bench.servers import Server
from bench.subjects import DIRECT, OURS, SUBJECTS

STREAMS = (100, 300, 1000)
QUICK_STREAMS = (300,)
ROUNDS = {100: 2, 300: 5}
"""Where they are not three. The budget counts at 300: there two rounds of the same server differ by a fifth."""

SATURATED = 0.95
"""Of a core, or of the tokens: a worker that has no more to give merges tokens, or falls behind, and its cost is not
that of one token."""


def run(run: Run) -> list[Row]:
    streams = run.streams or (QUICK_STREAMS if run.quick else STREAMS)
    rows: list[Row] = []
    with upstream() as (url, pid), running(run, list(SUBJECTS), url) as servers:
        for count in streams:
            rows.append(_direct_row(run, url, pid, count))
            found = in_turn(
                run,
                f"relay, {count:,} streams",
                servers,
                run.rounds or (1 if run.quick else ROUNDS.get(count, 3)),
                partial(_measure, run, pid, count),
                partial(is_saturated, run, count),
            )
            rows += [_row(run, count, name, found) for name in found]
            servers = _not_saturated(run, servers, found, count)
    return rows


def _measure(run: Run, upstream_pid: int, streams: int, server: Server) -> Measured:
    return load_server(server, upstream_pid, _wanted(run), _arguments(run, streams))


def _wanted(run: Run) -> dict[str, float]:
    return {"interval_ms": run.interval_ms, "size": run.event_bytes}


def _arguments(run: Run, streams: int) -> list[str]:
    seconds = run.seconds or (1.5 if run.quick else 2.5)
    ramp = 0.3 + streams / 500
    return ["--streams", str(streams), "--ramp", f"{ramp:g}", "--warm-up", "0.7", "--seconds", f"{seconds:g}"]


def _not_saturated(run: Run, servers: list[Server], found: Found, streams: int) -> list[Server]:
    """Return those that can carry more; ours are asked all the same."""
    left = []
    for server in servers:
        if server.subject.name not in OURS and any(
            is_saturated(run, streams, one) for one in found[server.subject.name]
        ):
            run.say(f"relay, more than {streams:,} streams: not asked of {server.subject.name}, which is saturated")
        else:
            left.append(server)
    return left


def is_saturated(run: Run, streams: int, measured: Measured) -> bool:
    """Tell whether the server had no more to give."""
    offered = streams * 1000 / run.interval_ms * measured.seconds
    return measured.cpu["server"] > SATURATED * measured.seconds or measured.tokens < SATURATED * offered


def cost(measured: Measured) -> float | None:
    """Return the processor time of the server for each token, in microseconds."""
    return measured.cpu["server"] / measured.tokens * 1e6 if measured.tokens else None


def _direct_row(run: Run, url: str, upstream_pid: int, streams: int) -> Row:
    """Measure the bench itself: what the times would be if nobody stood between."""
    arguments = [f"--body={body(**_wanted(run))}", *_arguments(run, streams)]
    measured = load(f"{url}/chat/completions", {"upstream": upstream_pid}, arguments)
    row = {"streams": streams, "subject": DIRECT, **_times([measured]), **circumstances([measured])}
    return {**row, "note": note(row)}


def _times(measured: Sequence[Measured]) -> dict[str, float | None]:
    return {
        "p50_ms": middle(one.p50_ms for one in measured),
        "p99_ms": middle(one.p99_ms for one in measured),
        "max_ms": middle(one.max_ms for one in measured),
        "fairness": middle(one.fairness for one in measured),
        "tokens_per_second": middle((one.tokens / one.seconds for one in measured), 0),
        "tokens_per_read": middle(one.tokens / max(one.reads, 1) for one in measured),
    }


def _row(run: Run, streams: int, name: str, found: Found) -> Row:
    measured = found[name]
    row: dict[str, Any] = {
        "streams": streams,
        "subject": name,
        "cpu_us": middle(map(cost, measured)),
        "cpu_us_rounds": [round(cost(one) or 0, 2) for one in measured],
        "ratio": ratio(found, name, cost),
        **_times(measured),
        **circumstances(measured),
    }
    is_full = sum(is_saturated(run, streams, one) for one in measured) > len(measured) / 2
    row["note"] = note(row, "saturated" if is_full else "")
    return row


RELAY = Case(
    "relay",
    "Relay: what a token costs, and how much later it is",
    "Streams of 20 tokens a second, each at its own phase. CPU: user and system time of all processes of the server."
    " The times are from the upstream's sending to the client's reading. Core: the share of one that the server took;"
    " others: what everybody else on the machine took; headroom: what was left of a core to the load generator and to"
    " the upstream.",
    (
        Column("streams", "streams", number),
        SERVER,
        Column("CPU for a token", "cpu_us", microseconds),
        Column("of naive", "ratio", times),
        Column("p50", "p50_ms", milliseconds),
        Column("p99", "p99_ms", milliseconds),
        Column("max", "max_ms", milliseconds),
        *CIRCUMSTANCES,
    ),
    run,
)
