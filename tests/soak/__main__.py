"""Run a soak: `python -m soak` in `tests/`, or `make soak`. Exits with 1 if anything was wrong."""

from __future__ import annotations

import os
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import click
from answer_vectors import said
from conftest import API_KEY
from raw_upstream import Pause, RawUpstream, chunk, head

from flaskstream.lab.gunicorn import GunicornProcess
from soak.clients import CHAT, ROUTES, Got, do_something
from soak.judge import Verdict, judge
from soak.plays import OWN, OWN_PLAY, Play, Repertoire
from soak.quiet import base_of, leaks, lost_places
from soak.storm import BLOWS, DEADLY, Storm

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKERS = 2
PLACES = 24
"""In each worker: so few that some clients find none."""

OWN_SHARE = 0.1
"""Of the clients: they ask for a stream of the app's own generator."""

CALM_SHARE = 0.25
"""Of the time, at its end: no worker is hit any more, so that what they then hold has been used for a while."""

SHOWN = 20
"""Of the things that were wrong; the others are counted."""

SETTINGS = {
    "api_key": API_KEY,
    "heartbeat": "0.3",
    "status_grace": "0.5",
    "idle_timeout": "3",
    "max_duration": "60",
    "max_streams": str(PLACES),
}


@dataclass
class Record:
    """What came of all streams; any thread adds to it."""

    streams: list[tuple[Got, Verdict]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, got: Got) -> None:
        verdict = judge(got)
        if not verdict.wrong and not verdict.unexpected:
            got.body.clear()  # thousands of them would be kept
        with self._lock:
            self.streams.append((got, verdict))

    def wrong(self, storm: Storm) -> list[str]:
        """Say what was wrong, and what was unexpected where the storm had no part in it."""
        found = []
        for got, verdict in self.streams:
            is_excused = storm.has_hit(got.began_at, got.ended_at, DEADLY if verdict.end == "cut" else BLOWS)
            said = verdict.wrong or ("" if is_excused else verdict.unexpected)
            if said:
                found.append(f"{got.route} {got.behaviour} of {got.play.kind} ({got.play.model}): {said}")
        return found


def _client(url: str, plays: Repertoire, rng: random.Random, until: float, record: Record) -> None:
    def choose(behaviour: str) -> Got:
        if rng.random() < OWN_SHARE:
            return Got(OWN_PLAY, OWN, behaviour)
        return Got(plays.choose(rng), rng.choice(ROUTES), behaviour)

    while time.monotonic() < until:
        gots = do_something(url, choose, rng)
        for got in gots:
            record.add(got)
        if any(got.failure for got in gots):
            time.sleep(0.05)  # nobody asks a dead server as fast as it can


def _soak(server: GunicornProcess, plays: Repertoire, seed: int, seconds: float, clients: int) -> tuple[Record, Storm]:
    stormy = seconds * (1 - CALM_SHARE)
    record, storm = Record(), Storm(server, random.Random(f"{seed} storm"), stormy)
    until = time.monotonic() + seconds
    calm = threading.Timer(stormy, storm.stop)
    storm.start()
    calm.start()
    with ThreadPoolExecutor(clients) as pool:
        jobs = [
            pool.submit(_client, server.url, plays, random.Random(f"{seed} client {number}"), until, record)
            for number in range(clients)
        ]
    calm.join()
    for job in jobs:
        job.result()
    return record, storm


def _warm_up(server: GunicornProcess, plays: Repertoire) -> None:
    """Have every worker import what it imports late, and start the threads that it keeps."""
    rng = random.Random(0)
    with ThreadPoolExecutor(PLACES) as pool:
        list(pool.map(lambda kind: _ask(server, plays.one(kind), rng), ["whole", "refuses", "closes", "page"] * 10))


def _ask(server: GunicornProcess, play: Play, rng: random.Random) -> None:
    do_something(server.url, lambda behaviour: Got(play, CHAT, behaviour), rng)


def _files_in(folder: str) -> list[str]:
    return [f"a temporary file is left: {os.path.join(at, name)}" for at, _, names in os.walk(folder) for name in names]


@dataclass(frozen=True)
class Outcome:
    """What a soak gave: all streams, all blows, what was wrong, and the server's log."""

    record: Record
    storm: Storm
    wrong: list[str]
    log: str


def _run(upstream: RawUpstream, seed: int, seconds: float, worker: str, clients: int) -> Outcome:
    plays = Repertoire(random.Random(seed), upstream)
    holds = Play(upstream.plays(head("chunked"), *[chunk(said("word ")), Pause(0.5)] * 60), "holds")
    with _server(upstream.url, worker) as server:
        server.wait_until_it_answers()
        _warm_up(server, plays)
        base = base_of(server, upstream.url)
        record, storm = _soak(server, plays, seed, seconds, clients)
        wrong = record.wrong(storm)
        try:
            wrong += leaks(server, upstream.url, base) + lost_places(server, holds, PLACES)
        except OSError as error:
            wrong.append(f"gunicorn does not answer any more: {error!r}; its log ends: {server.errors()[-2000:]}")
    return Outcome(record, storm, wrong, server.errors())


def _server(upstream: str, worker: str) -> GunicornProcess:
    settings = {**SETTINGS, "upstream": upstream}
    arguments, config = ("--workers", str(WORKERS)), f"soak/gunicorn_{worker}.py"
    return GunicornProcess(settings, arguments, app="soak.worker_app:app", config=config, folder=TESTS)


def _print(outcome: Outcome) -> None:
    blows = Counter(name for _, name in outcome.storm.blows)
    click.echo(f"\n{len(outcome.record.streams)} streams; blows: {dict(blows)}\n")
    for title, key in (
        ("ends", lambda got, verdict: verdict.end),
        ("clients", lambda got, verdict: got.behaviour),
        ("upstreams", lambda got, verdict: got.play.kind),
    ):
        counts = Counter(key(got, verdict) for got, verdict in outcome.record.streams)
        click.echo(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    for line in outcome.wrong[:SHOWN]:
        click.echo(f"WRONG: {line}")
        for stream_id in re.findall(r'"id": ?"(\w+)"', line):
            about = [logged for logged in outcome.log.splitlines() if stream_id in logged]
            click.echo("".join(f"       {logged}\n" for logged in about), nl=False)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seconds", default=180.0, show_default=True, help="How long the trouble lasts.")
@click.option("--seed", default=None, type=int, help="Makes up the same trouble again; not its timing.")
@click.option("--worker", default="gevent", show_default=True, type=click.Choice(["gevent", "gthread"]))
@click.option("--clients", default=40, show_default=True, help="How many there are at once.")
def main(seconds: float, seed: int | None, worker: str, clients: int) -> None:
    """Minutes of random trouble, after which nothing may be left and nothing may have looked whole that was not."""
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}, {worker}, {clients} clients, {seconds:g} s")
    upstream = RawUpstream()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder  # the server's
        outcome = _run(upstream, seed, seconds, worker, clients)
        outcome.wrong.extend(_files_in(folder))
    upstream.close()
    _print(outcome)
    count = len(outcome.wrong)
    click.echo(f"{count} things were wrong (seed {seed})" if count else "nothing was wrong, and nothing is left")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
