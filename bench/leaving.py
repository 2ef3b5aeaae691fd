"""How long an upstream is kept, and paid for, after the client has left: `python -m bench.leaving`.

A client opens a stream through a real gunicorn, waits until it is in one of the states below, and leaves with a FIN or
a RST. The upstream is a program of its own; it and the clients read one clock, the monotonic one of this machine.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import platform
import select
import socket
import struct
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Callable, Iterator, Sequence
from urllib.parse import urlsplit

import click

from bench.json_file import json_option, write_json
from bench.percentile import percentile
from bench.table import grid
from flaskstream.lab.figures import seconds_text
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import PACKAGE_ROOT, START_SECONDS, end, environment, first_line

SCHEMA_VERSION = 1

PATIENCE = 10.0
"""Seconds after which an upstream counts as never left."""

SETTLE_SECONDS = 0.05
"""What was sent just now is read by then. No latency contains it."""

READ_OF_FLOOD_BYTES = 16 * 1024
"""How much a client of a flood reads before it leaves: some hundred tokens, with many more on their way."""


@dataclass(frozen=True)
class State:
    """What a stream is doing when its client leaves.

    Attributes:
        name: for the upstream, and in JSON.
        words: for people.
        at_once: how many of these streams are open beside one another; they are left one by one.
        reads_bytes: how much the client has read of the answer by then.
    """

    name: str
    words: str
    at_once: int
    reads_bytes: int


STATES = (
    State("before_head", "before the upstream's headers", 20, 0),
    State("after_head", "after the headers, no token yet", 20, 0),
    State("mid_stream", "silent in mid-answer", 20, 1),
    # One at a time: a second one would measure how two share a processor.
    State("flooding", "flooding", 1, READ_OF_FLOOD_BYTES),
)


def fin(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_RDWR)  # and no close(): with bytes unread, that would be a RST


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


WAYS: dict[str, Callable[[socket.socket], None]] = {"fin": fin, "reset": reset}

SERVERS: dict[str, str] = {
    "gevent": "python:flaskstream.gunicorn_conf",
    "gthread": "python:bench.gunicorn_threads",
}
"""gunicorn's settings, by the kind of its worker."""


@dataclass(frozen=True)
class Leaving:
    """One row: the latencies of all streams of one state, left in one way.

    Attributes:
        server: the kind of gunicorn's worker.
        state, by: see `STATES` and `WAYS`.
        streams: how many were left.
        never: how many of them the upstream still had after `PATIENCE`.
        p50_ms, p99_ms, max_ms: from just before the client's call that leaves until the upstream's epoll tells;
            `None`: it never did.
    """

    server: str
    state: str
    by: str
    streams: int
    never: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class LeavingUpstream:
    """The program `leaving_upstream`, from construction until `close()`."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.leaving_upstream"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), cwd=PACKAGE_ROOT)
        self.url = first_line(self._process, START_SECONDS)
        self._noted: dict[tuple[str, str], float] = {}
        self._rest = b""

    def wait_for(self, stream: str, happened: str) -> float | None:
        """Return when this happened to the stream; `None`: not within `PATIENCE`."""
        assert self._process.stdout is not None
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        deadline = time.monotonic() + PATIENCE
        while (stream, happened) not in self._noted:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return None
            self._read()
        return self._noted[stream, happened]

    def _read(self) -> None:
        assert self._process.stdout is not None
        data = os.read(self._process.stdout.fileno(), 65536)
        if not data:
            raise RuntimeError("the upstream of the bench has ended")
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in map(json.loads, lines):
            self._noted[line["stream"], line["happened"]] = line["at"]

    def close(self) -> None:
        end(self._process)

    def __enter__(self) -> LeavingUpstream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def measure(servers: Sequence[str], streams: int, progress: Callable[[str], None]) -> Iterator[Leaving]:
    """Measure every state, left in every way, under each kind of worker.

    Args:
        servers: keys of `SERVERS`.
        streams: how many are left for each row.
        progress: called with a few words about what is being done.
    """
    for name in servers:
        with LeavingUpstream() as upstream, _gunicorn(name, upstream.url) as server:
            server.wait_until_it_answers()
            for state in STATES:
                for by, leave in WAYS.items():
                    progress(f"{name}: {state.words}, by {by}")
                    yield _row(name, state, by, _latencies(server, upstream, state, leave, streams))


def _gunicorn(name: str, upstream: str) -> GunicornProcess:
    # No heartbeat: what is noticed is noticed without one.
    return GunicornProcess({"upstream": upstream, "heartbeat": "0"}, config=SERVERS[name], folder=PACKAGE_ROOT)


def _latencies(
    server: GunicornProcess, upstream: LeavingUpstream, state: State, leave: Callable[[socket.socket], None], count: int
) -> list[float]:
    """Return the latencies in seconds; infinite ones for upstreams that were never left."""
    found: list[float] = []
    while len(found) < count:
        names = [f"{state.name}-{time.monotonic_ns()}{n}" for n in range(min(state.at_once, count - len(found)))]
        clients = {name: _open(server, upstream, state, name) for name in names}
        if not state.reads_bytes > 1:
            time.sleep(SETTLE_SECONDS)
        for name, client in clients.items():
            with client:
                gone_at = time.monotonic()
                leave(client)
                left_at = upstream.wait_for(name, "left")
                found.append(math.inf if left_at is None else left_at - gone_at)
    return found


def _open(server: GunicornProcess, upstream: LeavingUpstream, state: State, name: str) -> socket.socket:
    where = urlsplit(server.url)
    client = socket.create_connection((where.hostname, where.port), timeout=PATIENCE)
    body = json.dumps({"q": "hello", "model": name}).encode()
    head = "POST /stream/chat HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "
    client.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
    if upstream.wait_for(name, "asked") is None:
        raise RuntimeError(f"gunicorn asked nothing; its log: {server.errors()}")
    read = 0
    while read < state.reads_bytes:
        data = client.recv(65536)
        if not data:
            raise RuntimeError(f"gunicorn ended the stream; its log: {server.errors()}")
        read += len(data)
    return client


def _row(server: str, state: State, by: str, latencies: Sequence[float]) -> Leaving:
    ordered = sorted(latencies)
    never = sum(map(math.isinf, ordered))
    p50, p99, most = (_milliseconds(percentile(ordered, share)) for share in (0.5, 0.99, 1.0))
    return Leaving(server, state.name, by, len(ordered), never, p50, p99, most)


def _milliseconds(seconds: float) -> float | None:
    return None if math.isinf(seconds) else round(seconds * 1000, 3)


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    import gevent
    import gunicorn

    return {
        "name": platform.node(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "gunicorn": gunicorn.__version__,
        "gevent": gevent.__version__,
    }


def _table(rows: Sequence[Leaving]) -> str:
    words = {state.name: state.words for state in STATES}
    titles = ("worker", "the stream is", "left by", "streams", "p50", "p99", "max", "never")
    return grid(titles, [_cells(row, words[row.state]) for row in rows])


def _cells(row: Leaving, state: str) -> tuple[str, ...]:
    times = map(_text, (row.p50_ms, row.p99_ms, row.max_ms))
    return (row.server, state, row.by, str(row.streams), *times, str(row.never))


def _text(milliseconds: float | None) -> str:
    return seconds_text(None if milliseconds is None else milliseconds / 1000)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--streams",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="How many streams are left for each row.",
)
@click.option("--server", "servers", type=click.Choice(list(SERVERS)), multiple=True, help="Default: both.")
@json_option
def main(streams: int, servers: Sequence[str], json_file: pathlib.Path | None) -> None:
    """Measure how long after its client the upstream of a stream is left."""
    rows = list(measure(servers or list(SERVERS), streams, lambda words: click.echo(words, err=True)))
    about = machine()
    write_json(json_file, {"schema_version": SCHEMA_VERSION, "machine": about, "rows": list(map(asdict, rows))})
    click.echo("From the client's leaving to the upstream's seeing it:\n")
    click.echo(_table(rows))
    click.echo("\n" + ", ".join(f"{key} {value}" for key, value in about.items()))


if __name__ == "__main__":
    main()
