"""What a store costs beside none: `python -m bench.stores`.

For each store a real gunicorn with one worker; the rounds go from one to the next, so that all of them have the same
machine. Measured are the processor time of the serving processes for each token, how much later a token is with its
client than the model said it, and how soon 10,000 recorded events are read again.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import selectors
import socket
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import click

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from redis_server import NoRedis, RedisServer  # noqa: E402 - the tests are no package that is installed

from bench import cpu, leaving  # noqa: E402
from bench.json_file import json_option, write_json  # noqa: E402
from bench.percentile import percentile  # noqa: E402
from bench.table import grid  # noqa: E402
from flaskstream.doctor.wire import Body, ResponseParser  # noqa: E402
from flaskstream.lab.figures import seconds_text  # noqa: E402
from flaskstream.lab.gunicorn import GunicornProcess  # noqa: E402
from flaskstream.lab.model.script import Script  # noqa: E402
from flaskstream.lab.processes import ModelProcess  # noqa: E402

SCHEMA_VERSION = 1

COUNT = click.IntRange(min=1)

STORES = ("none", "memory", "sqlite", "redis")

PATIENCE = 60.0
"""Seconds of silence after which the bench gives up."""

REPLAYS = 5
"""Of which the median counts."""

_EVENT_END = b"\n\n"


@dataclass
class Row:
    """What one store costs.

    Attributes:
        store: one of `STORES`.
        tokens: how many the figures are of.
        cpu_us: processor time of gunicorn's processes for each token, in microseconds.
        ratio: of that to no store's.
        store_cpu_us: that of the store's own process, if it has one.
        p50_ms, p99_ms: from the moment when a token is due at the model until it is with its client.
        added_p50_ms, added_p99_ms: so much more than without a store.
        replayed: how many events were read again, at once.
        replay_ms: how long that took, from the request to the end; `None`: there is nothing to read again.
        replay_per_second: events.
    """

    store: str
    tokens: int = 0
    cpu_us: float = 0.0
    ratio: float = 1.0
    store_cpu_us: float | None = None
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    added_p50_ms: float = 0.0
    added_p99_ms: float = 0.0
    replayed: int = 0
    replay_ms: float | None = None
    replay_per_second: float | None = None


@dataclass
class Subject:
    """A server that is measured, and what was found so far.

    Attributes:
        name: of its store.
        server: the gunicorn.
        store_pid: of the store's own process.
        latencies: seconds, of all tokens.
        cpu, store_cpu: seconds, in all rounds.
    """

    name: str
    server: GunicornProcess
    store_pid: int | None = None
    latencies: list[float] = field(default_factory=list)
    cpu: float = 0.0
    store_cpu: float = 0.0


class Reader:
    """One client of one answer: it notes when each event came."""

    def __init__(self, url: str, path: str, body: bytes = b"") -> None:
        where = urlsplit(url)
        self.socket = socket.create_connection((where.hostname, where.port), timeout=PATIENCE)
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{kind}\r\n"
        self.asked_at = time.monotonic()
        self.socket.sendall(head.encode() + body)
        self.arrivals: list[float] = []
        self.head = b""
        self.body = bytearray()
        self._parser = ResponseParser()
        self._searched = 0

    def read(self) -> bool:
        """Read once; return whether there may be more."""
        data = self.socket.recv(1 << 18)
        at = time.monotonic()
        if not self.arrivals:
            self.head += data
        for part in self._parser.feed(data):
            if isinstance(part, Body):
                self.body += part.data
        count = self.body.count(_EVENT_END, self._searched)
        self._searched = max(0, self.body.rfind(_EVENT_END) + len(_EVENT_END)) if count else self._searched
        self.arrivals += [at] * count
        return bool(data)

    def read_to_end(self) -> Reader:
        with self.socket:
            while self.read():
                pass
        return self


@contextlib.contextmanager
def subjects(names: Sequence[str], model: ModelProcess) -> Iterator[list[Subject]]:
    """Start a server for each of these stores."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-stores-"))
        found = []
        for name in names:
            redis = stack.enter_context(contextlib.closing(RedisServer())) if name == "redis" else None
            url = {"none": "", "memory": "memory:", "sqlite": f"sqlite:{folder}/streams.db"}.get(name, "")
            settings = {"upstream": model.url, "store": redis.url if redis else url, "debug_print": "0"}
            server = stack.enter_context(GunicornProcess(settings))
            server.wait_until_it_answers()
            found.append(Subject(name, server, redis.pid if redis else None))
        yield found


def measure(
    names: Sequence[str],
    streams: int,
    tokens: int,
    interval_ms: int,
    rounds: int,
    replay: int,
    progress: Callable[[str], None],
) -> list[Row]:
    """Measure these stores side by side.

    Args:
        names: some of `STORES`, "none" first: the others are compared with it.
        streams: at once.
        tokens, interval_ms: of each.
        rounds: in each of which every store has its turn.
        replay: how many events are read again.
        progress: called with a few words about what is being done.
    """
    with ModelProcess() as model, subjects(names, model) as found:
        for subject in found:
            _streams(subject, model, Script("warm-up", tokens=2, interval_ms=10), 2)
            subject.latencies.clear()
        for number in range(rounds):
            for subject in found:
                progress(f"round {number + 1}: {subject.name}")
                _round(subject, model, Script(f"bench{number}", tokens=tokens, interval_ms=interval_ms), streams)
        rows = [_row(subject, rounds * streams * tokens) for subject in found]
        for subject, row in zip(found, rows):
            if subject.name != "none":
                progress(f"replay: {subject.name}")
                _replay(subject, row, replay)
    for row in rows:
        row.ratio = round(row.cpu_us / rows[0].cpu_us, 2)
        row.added_p50_ms = round(row.p50_ms - rows[0].p50_ms, 2)
        row.added_p99_ms = round(row.p99_ms - rows[0].p99_ms, 2)
    return rows


def _round(subject: Subject, model: ModelProcess, script: Script, streams: int) -> None:
    before = _cpu(subject.server.pid), _store_cpu(subject)
    _streams(subject, model, script, streams)
    subject.cpu += _cpu(subject.server.pid) - before[0]
    subject.store_cpu += _store_cpu(subject) - before[1]


def _store_cpu(subject: Subject) -> float:
    return 0.0 if subject.store_pid is None else _cpu(subject.store_pid)


def _cpu(pid: int) -> float:
    return sum(cpu.seconds_of_tree(pid).values())


def _streams(subject: Subject, model: ModelProcess, script: Script, count: int) -> None:
    """Read so many answers at once, and note how late each token was."""
    model.forget()
    readers = {}
    with selectors.DefaultSelector() as selector:
        for number in range(count):
            name = f"{script.name}-{number}?{script.model.partition('?')[2]}"
            readers[name] = _open(subject.server.url, name)
            selector.register(readers[name].socket, selectors.EVENT_READ, readers[name])
            time.sleep(script.interval_ms / 1000 / count)  # as they come: not all of them at the same instant
        while selector.get_map():
            for key, _ in selector.select(PATIENCE) or _nobody_answers():
                if not key.data.read():
                    selector.unregister(key.fileobj)
                    key.data.socket.close()
    started = {asked["model"]: asked["started_at"] for asked in model.requests()}
    for name, reader in readers.items():
        if len(reader.arrivals) != script.tokens + 1:
            raise RuntimeError(f"expected {script.tokens} tokens and an end, got {bytes(reader.body)!r:.500}")
        for number, at in enumerate(reader.arrivals[:-1], 1):
            subject.latencies.append(at - started[name] - script.due(number))


def _nobody_answers() -> Any:
    raise RuntimeError(f"expected an answer within {PATIENCE:g} s, got none")


def _open(url: str, model: str) -> Reader:
    return Reader(url, "/stream/chat", json.dumps({"q": "hello", "model": model}).encode())


def _row(subject: Subject, tokens: int) -> Row:
    ordered = sorted(subject.latencies)
    row = Row(subject.name, tokens, cpu_us=round(subject.cpu / tokens * 1e6, 1))
    row.p50_ms, row.p99_ms = (round(percentile(ordered, share) * 1000, 2) for share in (0.5, 0.99))
    row.store_cpu_us = None if subject.store_pid is None else round(subject.store_cpu / tokens * 1e6, 1)
    return row


def _replay(subject: Subject, row: Row, events: int) -> None:
    whole = _open(subject.server.url, Script("replay", tokens=events - 1, interval_ms=0).model).read_to_end()
    (location,) = (
        line.partition(b":")[2].strip() for line in whole.head.splitlines() if line.lower().startswith(b"location:")
    )
    times = []
    for _ in range(REPLAYS):
        again = Reader(subject.server.url, location.decode()).read_to_end()
        if len(again.arrivals) != events:
            raise RuntimeError(f"expected {events} events, got {len(again.arrivals)}")
        times.append(again.arrivals[-1] - again.asked_at)
    seconds = percentile(sorted(times), 0.5)
    row.replayed, row.replay_ms, row.replay_per_second = events, round(seconds * 1000, 1), round(events / seconds)


def machine() -> Mapping[str, Any]:
    """What the figures depend on."""
    import sqlite3

    return {**leaving.machine(), "sqlite": sqlite3.sqlite_version}


def table(rows: Sequence[Row]) -> str:
    """Return the figures for people, as a table that Markdown takes."""
    titles = (
        "store",
        "CPU for a token",
        "beside none",
        "the store's own",
        "p50",
        "p99",
        "added p50",
        "replay",
        "events a second",
    )
    return grid(titles, list(map(_cells, rows)))


def _cells(row: Row) -> tuple[str, ...]:
    own = "" if row.store_cpu_us is None else f"{row.store_cpu_us:.0f} us"
    times = [seconds_text(milliseconds / 1000) for milliseconds in (row.p50_ms, row.p99_ms, row.added_p50_ms)]
    replay = "" if row.replay_ms is None else seconds_text(row.replay_ms / 1000)
    rate = "" if row.replay_per_second is None else f"{row.replay_per_second:,.0f}"
    return (row.store, f"{row.cpu_us:.0f} us", f"{row.ratio:.2f}", own, *times, replay, rate)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--streams", type=COUNT, default=50, show_default=True, help="How many at once.")
@click.option("--tokens", type=COUNT, default=100, show_default=True, help="Of each stream.")
@click.option(
    "--interval", "interval_ms", type=COUNT, default=50, show_default=True, help="Milliseconds between two of them."
)
@click.option("--rounds", type=COUNT, default=3, show_default=True, help="In each of which every store has its turn.")
@click.option("--replay", type=COUNT, default=10_000, show_default=True, help="How many events are read again at once.")
@click.option("--store", "stores", type=click.Choice(STORES[1:]), multiple=True, help="Default: all.")
@json_option
def main(
    streams: int,
    tokens: int,
    interval_ms: int,
    rounds: int,
    replay: int,
    stores: Sequence[str],
    json_file: pathlib.Path | None,
) -> None:
    """Measure what a store costs for each token, and how soon events are read again."""
    names = ["none", *(stores or STORES[1:])]
    try:
        rows = measure(names, streams, tokens, interval_ms, rounds, replay, lambda words: click.echo(words, err=True))
    except NoRedis as why:
        raise click.ClickException(f"{why}; leave it out by --store memory --store sqlite") from None
    about = machine()
    write_json(json_file, {"schema_version": SCHEMA_VERSION, "machine": about, "rows": list(map(asdict, rows))})
    click.echo(f"{streams} streams at once, a token every {interval_ms} ms, {rows[0].tokens} tokens for each store:\n")
    click.echo(table(rows))
    click.echo("\n" + ", ".join(f"{key} {value}" for key, value in about.items()))


if __name__ == "__main__":
    main()
