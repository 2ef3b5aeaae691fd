"""Tokens arrive when the model says them, whatever the framing and the coding: measured at the client's socket.

The control of each measurement is a reader as it is usually written, in the same run.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable

import pytest
import requests
from raw_upstream import PATIENCE
from relay_client import chat, end, text

from flaskstream.lab.script import Script

FRAMINGS = ("chunked", "close", "http10", "length")
CODINGS = ("identity", "gzip", "deflate")
TICK = 0.15  # seconds between two tokens
TOKENS = 8


@dataclass(frozen=True)
class Delays:
    """How long after the model had said it each token was here, in seconds."""

    kit: list[float]
    usual: list[float]


def test_table_of_delays(delays: dict[tuple[str, str], Delays]) -> None:
    print(f"\nmilliseconds after the model said it, one token each {TICK * 1000:.0f}")  # noqa: T201 - the table
    for (framing, coding), both in delays.items():
        kit, usual = (" ".join(f"{delay * 1000:6.0f}" for delay in row) for row in (both.kit, both.usual))
        print(f"{framing:8} {coding:8} kit {kit}   iter_lines {usual}")  # noqa: T201 - the table
    assert len(delays) == len(FRAMINGS) * len(CODINGS)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("framing", FRAMINGS)
def test_each_token_is_here_before_the_next_one_is_said(delays: Any, framing: str, coding: str) -> None:
    kit = delays[framing, coding].kit
    assert len(kit) == TOKENS
    assert statistics.median(kit) < TICK / 2
    assert sum(delay > TICK for delay in kit) <= 1  # a busy machine may hold one


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("framing", ["close", "http10", "length"])
def test_the_usual_reader_is_late_where_the_body_is_not_chunked(delays: Any, framing: str, coding: str) -> None:
    kit, usual = delays[framing, coding].kit, delays[framing, coding].usual
    assert max(usual) > TICK
    assert statistics.mean(usual) > 2 * statistics.mean(kit)


@pytest.fixture(scope="module")
def delays(model: Any, gunicorn: Any) -> dict[tuple[str, str], Delays]:
    """All at once, so that a busy machine is as hard on the one reader as on the other."""
    combinations = [(framing, coding) for framing in FRAMINGS for coding in CODINGS]
    jobs = {}
    for framing, coding in combinations:
        for name, read in (("kit", kit_arrivals), ("usual", usual_arrivals)):
            script = Script(name, TOKENS, int(TICK * 1000), framing=framing, coding=coding)
            server = gunicorn if name == "kit" else model
            jobs[name, framing, coding] = lambda read=read, server=server, script=script: late(
                model, server, script, read
            )
    model.forget()
    found = in_parallel(jobs)
    return {key: Delays(found[("kit", *key)], found[("usual", *key)]) for key in combinations}


def late(model: Any, server: Any, script: Script, read: Callable[[Any, Script], list[float]]) -> list[float]:
    arrivals = read(server, script)
    (asked,) = (entry for entry in model.requests() if entry["model"] == script.model)
    return [at - asked["started_at"] - script.due(number) for number, at in enumerate(arrivals, start=1)]


def kit_arrivals(gunicorn: Any, script: Script) -> list[float]:
    recording = chat(gunicorn, script.model)
    assert (text(recording), end(recording).event) == (script.text, "done")
    return [timed.at for timed in recording.events[:-1]]


def usual_arrivals(model: Any, script: Script) -> list[float]:
    payload = {"model": script.model, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    arrivals = []
    with requests.post(f"{model.url}/chat/completions", json=payload, stream=True, timeout=PATIENCE) as response:
        for line in response.iter_lines():
            if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                arrivals.append(time.monotonic())
    return arrivals


def in_parallel(jobs: dict[Any, Callable[[], Any]]) -> dict[Any, Any]:
    results: dict[Any, Any] = {}
    threads = [
        threading.Thread(target=lambda key=key, job=job: results.update({key: job()})) for key, job in jobs.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
