"""How soon the upstream is left when a client goes: that of `python -m bench.leaving`, under gevent."""

from __future__ import annotations

from dataclasses import asdict

from bench import leaving
from bench.case import Case, Column, Row, Run, milliseconds, number

_WORDS = {state.name: state.words for state in leaving.STATES}


def run(run: Run) -> list[Row]:
    streams = 20 if run.quick else 100
    say = lambda words: run.say(f"client gone, {words}")  # noqa: E731
    return [{**asdict(row), "words": _WORDS[row.state]} for row in leaving.measure(["gevent"], streams, say)]


GONE = Case(
    "gone",
    "Client gone: until the upstream is left",
    "From just before the client's leaving until the upstream's epoll tells it.",
    (
        Column("the stream is", "words"),
        Column("left by", "by"),
        Column("streams", "streams", number),
        Column("p50", "p50_ms", milliseconds),
        Column("p99", "p99_ms", milliseconds),
        Column("max", "max_ms", milliseconds),
        Column("never", "never", number),
    ),
    run,
)
