"""Tokens arrive when the model says them, whatever the framing, the coding, TLS and the worker: one table of delays.

Measured at the client's socket. The control is a reader as it is usually written, in the same run.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
import threading
import time
from typing import Any, Callable, Iterator, NamedTuple

import pytest
import requests
from listeners import PLAIN
from raw_upstream import PATIENCE
from relay_client import chat, end, text
from servers import TESTS

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess

TRANSPORTS = ("plain", "tls")
READERS = ("gevent", "gthread", "usual")
"""The kit in a worker of each kind; and iter_lines(), which asks the model itself."""

FRAMINGS = ("chunked", "close", "http10", "length")
CODINGS = ("identity", "gzip", "deflate")
TICK = 0.15  # seconds between two tokens
TOKENS = 8
MORE_ROUNDS = 3
THREADS = ("--worker-class", "gthread", "--threads", str(2 * len(FRAMINGS) * len(CODINGS)))


class Row(NamedTuple):
    """One measurement: from what the model was told, and by whom it was read."""

    transport: str
    framing: str
    coding: str
    reader: str

    @property
    def script(self) -> Script:
        return Script(
            self.reader, tokens=TOKENS, interval_ms=int(TICK * 1000), framing=self.framing, coding=self.coding
        )


ROWS = [Row(*row) for row in itertools.product(TRANSPORTS, FRAMINGS, CODINGS, READERS)]
OURS = [row for row in ROWS if row.reader != "usual"]


def test_table_of_delays(delays: Any) -> None:
    print(f"\nmilliseconds after the model said it, one token each {TICK * 1000:.0f}")  # noqa: T201 - the table
    for row in ROWS:
        shown = " ".join(f"{delay * 1000:6.1f}" for delay in delays[row])
        print(f"{row.transport:6} {row.framing:8} {row.coding:9} {row.reader:8} {shown}")  # noqa: T201 - the table
    assert list(delays) == ROWS


@pytest.mark.parametrize("row", OURS, ids="-".join)
def test_each_token_is_here_before_the_next_one_is_said(delays: Any, row: Row) -> None:
    assert len(delays[row]) == TOKENS
    assert not is_late(delays[row])


@pytest.mark.parametrize("row", [row for row in OURS if row.framing != "chunked"], ids="-".join)
def test_the_usual_reader_is_late_where_the_body_is_not_chunked(delays: Any, row: Row) -> None:
    usual = delays[row._replace(reader="usual")]
    assert max(usual) > TICK
    assert statistics.mean(usual) > 2 * statistics.mean(delays[row])


@pytest.fixture(scope="module")
def models(model: ModelProcess, certificate: str) -> Iterator[dict[str, ModelProcess]]:
    with ModelProcess(certfile=certificate) as behind_tls:
        yield {"plain": model, "tls": behind_tls}


@pytest.fixture(scope="module")
def servers(models: Any, gunicorn: Any, certificate: str) -> Iterator[dict[tuple[str, str], GunicornProcess]]:
    """By transport and reader."""
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as environment:
        environment.setenv("REQUESTS_CA_BUNDLE", certificate)

        def started(upstream: ModelProcess, *arguments: str, **where: str) -> GunicornProcess:
            return stack.enter_context(GunicornProcess({"upstream": upstream.url}, arguments, **where))

        found = {("plain", "gevent"): gunicorn, ("tls", "gevent"): started(models["tls"])}
        for transport in TRANSPORTS:
            found[transport, "gthread"] = started(models[transport], *THREADS, config=PLAIN, folder=TESTS)
        for server in found.values():
            server.wait_until_it_answers()
        yield found
        for server in set(found.values()) - {gunicorn}:
            server.kill()  # nobody waits for its graceful end


@pytest.fixture(scope="module")
def delays(models: Any, servers: Any, certificate: str) -> dict[Row, list[float]]:
    """How long after the model had said it each token was here, in seconds.

    A busy machine is late now and then, a reader that holds tokens back is late with the same ones each time: so what
    came late is measured again, and the shortest delay of each token counts.
    """

    def arrivals(row: Row) -> list[float]:
        if row.reader == "usual":
            return usual_arrivals(models[row.transport], row.script, certificate)
        return kit_arrivals(servers[row.transport, row.reader], row.script)

    found = measured(ROWS, arrivals, models)
    for _ in range(MORE_ROUNDS):
        again = measured([row for row in OURS if is_late(found[row])], arrivals, models)
        found.update({row: [min(both) for both in zip(found[row], more)] for row, more in again.items()})
    return found


def is_late(delays: list[float]) -> bool:
    return max(delays) > TICK / 2


def measured(rows: list[Row], arrivals: Callable[[Row], list[float]], models: Any) -> dict[Row, list[float]]:
    """All at once, so that a busy machine is as hard on the one reader as on the other."""
    for model in models.values():
        model.forget()
    came = spread_over_a_tick({row: lambda row=row: arrivals(row) for row in rows})
    logs = {transport: model.requests() for transport, model in models.items()}
    return {row: late(logs[row.transport], row.script, came[row]) for row in rows}


def late(log: list[dict[str, Any]], script: Script, arrivals: list[float]) -> list[float]:
    (asked,) = (entry for entry in log if entry["model"] == script.model)
    return [at - asked["started_at"] - script.due(number) for number, at in enumerate(arrivals, start=1)]


def kit_arrivals(gunicorn: Any, script: Script) -> list[float]:
    recording = chat(gunicorn, script.model)
    assert (text(recording), end(recording).event) == (script.text, "done")
    return [timed.at for timed in recording.events[:-1]]


def usual_arrivals(model: Any, script: Script, certificate: str) -> list[float]:
    payload = {"model": script.model, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    asked = {"json": payload, "stream": True, "timeout": PATIENCE, "verify": certificate}
    arrivals = []
    with requests.post(f"{model.url}/chat/completions", **asked) as response:
        for line in response.iter_lines():
            if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                arrivals.append(time.monotonic())
    return arrivals


def spread_over_a_tick(jobs: dict[Row, Callable[[], list[float]]]) -> dict[Row, list[float]]:
    """Run all of them at once, one begun after the other, so that their tokens are not all due in one instant."""
    results: dict[Row, list[float]] = {}
    threads = [
        threading.Thread(target=lambda row=row, job=job: results.update({row: job()})) for row, job in jobs.items()
    ]
    for thread in threads:
        thread.start()
        time.sleep(TICK / len(jobs))
    for thread in threads:
        thread.join()
    return results
