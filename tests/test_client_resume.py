"""The browser client, in Node, with a real gunicorn, a store, and a hop that breaks connections.

What breaks is made up from a seed, which a failure names; `RESUME_SEED` plays it again.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import threading
from contextlib import closing
from typing import Any, Iterator

import pytest
from cutting_relay import CuttingRelay
from recorded import CHAT, Script, ask, recorded_server, script, wait_until
from test_client_js import needs_node, run

from flaskstream.client_js import SOURCE

pytestmark = needs_node

SEED = int(os.environ.get("RESUME_SEED") or secrets.randbits(32))
CLIENTS = 12
TOKENS, INTERVAL_MS = 30, 30
LEAST_BYTES, MOST_BYTES = 100, 1600
"""Of answers that a connection lets through: from within the head to some twenty events."""
CALM_AFTER = 6 * CLIENTS
"""Connections after which no more are broken."""
OPTIONS = {"minDelay": 20, "maxDelay": 100, "maxRetries": 50}


def two_workers(model: Any, folder: Any) -> Any:
    return recorded_server(model.url, f"sqlite:{folder}/streams.db", workers=2, retry=20, lease=10.0)


@pytest.fixture(scope="module")
def server(model: Any, tmp_path_factory: Any) -> Iterator[Any]:
    with two_workers(model, tmp_path_factory.mktemp("store")) as process:
        yield process


def scripts(count: int, **more: Any) -> list[Script]:
    name = secrets.token_hex(4)
    return [script(f"{name}-{n}", TOKENS, INTERVAL_MS, **more) for n in range(count)]


def read(url: str, said: list[Script], **more: Any) -> list[dict[str, Any]]:
    """Return what clients tell that ask for these answers, all at once."""
    question = [{"body": {"q": "hello", "model": one.model}, "options": OPTIONS, **more} for one in said]
    lines = run("node", "client_run.mjs", str(SOURCE), url + CHAT, told=json.dumps(question)).splitlines()
    return sorted(map(json.loads, lines), key=lambda told: told["n"])


def calls(model: Any, said: Script) -> list[dict[str, Any]]:
    return [call for call in model.requests() if call["model"] == said.model]


def is_the_whole_answer(told: dict[str, Any], said: Script, model: Any) -> None:
    seen = (told["text"], told["names"], told["state"], told["code"], len(calls(model, said)))
    assert seen == (said.text, ["message", "done"], "done", "", 1), f"RESUME_SEED={SEED}"


def test_answers_are_whole_and_paid_for_once_however_often_connections_break(server: Any, model: Any) -> None:
    rng = random.Random(SEED)
    lasts = [*(rng.randint(LEAST_BYTES, MOST_BYTES) for _ in range(CALM_AFTER)), LEAST_BYTES]  # the last one goes first
    said = scripts(CLIENTS)
    with closing(CuttingRelay(server.url, lambda: lasts.pop() if lasts else None)) as relay:
        told = read(relay.url, said)
        assert relay.cut > CLIENTS
    for one, script_of_it in zip(told, said):
        is_the_whole_answer(one, script_of_it, model)
    assert sum(one["attempts"] for one in told) >= relay.cut / 2
    assert any(one["asked"].count("POST") > 1 for one in told), "none was cut before its Location"


def test_answers_survive_workers_that_are_replaced(model: Any, tmp_path: Any) -> None:
    said = scripts(4)
    with two_workers(model, tmp_path) as server:
        deploy = threading.Timer(0.6, os.kill, (server.pid, signal.SIGHUP))
        deploy.start()
        told = read(server.url, said)
        deploy.join()
    for one, script_of_it in zip(told, said):
        is_the_whole_answer(one, script_of_it, model)
    assert all(one["attempts"] for one in told)


def test_stop_closes_the_upstream(server: Any, model: Any) -> None:
    (said,) = scripts(1, silence_after=3, silence_ms=60_000)
    (told,) = read(server.url, [said], act="stop", after=3)
    assert (told["names"], told["state"], told["asked"]) == (["message", "stopped"], "stopped", ["POST", "DELETE"])
    wait_until(lambda: calls(model, said)[0]["ended"] == "peer_left")


@pytest.mark.parametrize(("act", "code"), [("abort", "AbortError"), ("close", "")])
def test_to_leave_is_not_to_stop(server: Any, model: Any, act: str, code: str) -> None:
    (said,) = scripts(1)
    (told,) = read(server.url, [said], act=act, after=3)
    assert (told["state"], told["code"], told["asked"]) == ("closed", code, ["POST"])
    stream_id = told["location"].rpartition("/")[2]
    wait_until(lambda: ask(server, "HEAD", stream_id).header("X-Stream-State") == "done")
    assert len(calls(model, said)) == 1


def test_what_the_server_refuses_is_not_asked_again(server: Any) -> None:
    (told,) = read(server.url, scripts(1), body={"q": ""})
    assert (told["code"], told["state"], told["asked"]) == ("bad_request", "failed", ["POST"])


def test_without_a_store_a_broken_connection_is_an_error_and_never_a_second_answer(model: Any) -> None:
    said = scripts(3)
    lasts = [600, 700, 800]
    with recorded_server(model.url, "", retry=20) as process, closing(
        CuttingRelay(process.url, lambda: lasts.pop() if lasts else None)
    ) as relay:
        told = read(relay.url, said)
    for one, script_of_it in zip(told, said):
        assert (one["code"], one["state"], one["asked"]) == ("truncated", "failed", ["POST"])
        assert one["text"] and script_of_it.text.startswith(one["text"]) and one["text"] != script_of_it.text
        assert len(calls(model, script_of_it)) == 1
