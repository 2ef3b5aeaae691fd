"""What a token costs that is kept: that of `python -m bench.stores`."""

from __future__ import annotations

from dataclasses import asdict

from bench import stores
from bench.case import Case, Column, Row, Run, microseconds, milliseconds, number, times


def run(run: Run) -> list[Row]:
    names, rounds, tokens = ("none", "memory", "sqlite", "redis"), 1 if run.quick else 2, 30 if run.quick else 60
    replayed = 2000 if run.quick else 10_000
    say = lambda words: run.say(f"stores, {words}")  # noqa: E731
    try:
        rows = stores.measure(names, 50, tokens, 50, run.rounds or rounds, replayed, say)
    except stores.NoRedis as why:
        run.skip("redis", str(why))
        rows = stores.measure(names[:-1], 50, tokens, 50, run.rounds or rounds, replayed, say)
    return [asdict(row) for row in rows]


STORES = Case(
    "stores",
    "Stores: what keeping a token costs",
    "50 streams of 60 tokens (30 with `--quick`), 20 a second, from `/chat`, on one worker. CPU: with the beginning and"
    " the end of each stream, which are half of it here. The times are from when the model's script says it. Added: so"
    " much later than without a store. Replay: 10,000 events (2,000) read again at once.",
    (
        Column("store", "store"),
        Column("CPU for a token", "cpu_us", microseconds),
        Column("of none", "ratio", times),
        Column("the store's own", "store_cpu_us", microseconds),
        Column("p50", "p50_ms", milliseconds),
        Column("p99", "p99_ms", milliseconds),
        Column("added p50", "added_p50_ms", milliseconds),
        Column("replay", "replay_ms", milliseconds),
        Column("events a second", "replay_per_second", number),
    ),
    run,
)
