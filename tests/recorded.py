"""Clients of streams that are in a store, and the servers that have them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from typing import Any, Iterator

from one_view import PATIENCE
from relay_client import events, post

from flaskstream.doctor.measure import Recording, Request, record
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.model.script import Script

TESTS = os.path.dirname(os.path.abspath(__file__))
CHAT = "/stream/chat"
LEASE = 1.0  # seconds
FIELD = {"message"}

CONFIGS = {"gevent": "python:flaskstream.gunicorn_conf", "gthread": "apps/gunicorn_gthread.py"}


@contextlib.contextmanager
def recorded_server(
    model_url: str,
    store: str,
    *,
    worker: str = "gevent",
    workers: int = 1,
    arguments: tuple[str, ...] = (),
    **options: Any,
) -> Iterator[GunicornProcess]:
    """A gunicorn with `apps.recorded`; the options are those of `create_blueprint`."""
    told = json.dumps({"store": store, "lease": LEASE, "status_grace": 2.0, **options})
    threads = ("--threads", "24") if worker == "gthread" else ()
    with GunicornProcess(
        {"upstream": model_url, "model": told},
        ("--workers", str(workers), *threads, *arguments),
        "apps.recorded:create_app()",
        CONFIGS[worker],
        TESTS,
    ) as process:
        process.wait_until_it_answers()
        yield process


def script(name: str, tokens: int = 12, interval_ms: int = 30, **more: Any) -> Script:
    return Script(name, tokens=tokens, interval_ms=interval_ms, **more)


def begin(
    server: Any, said: Script, *headers: tuple[str, str], stop_after: int | None = None, path: str = CHAT
) -> Recording:
    """Ask for an answer; leave after so many events."""
    return record(post(server, path, {"q": "hello", "model": said.model}, *headers), stop_after)


def follow(
    server: Any, stream_id: str, *headers: tuple[str, str], query: str = "", stop_after: int | None = None
) -> Recording:
    """Go on with a stream."""
    return record(
        Request(f"{server.url}/stream/streams/{stream_id}{query}", headers=headers, timeout=PATIENCE), stop_after
    )


def ask(server: Any, method: str, stream_id: str, *headers: tuple[str, str]) -> Recording:
    return record(Request(f"{server.url}/stream/streams/{stream_id}", method, headers, timeout=PATIENCE))


def after(recording: Recording) -> tuple[str, str]:
    """The header with which a client comes back that has read so far."""
    return ("Last-Event-ID", last_id(recording))


def last_id(recording: Recording) -> str:
    return [event.id for event in events(recording) if event.id][-1] or ""


def numbers(recording: Recording) -> list[int]:
    """The numbers in the ids of its events."""
    return [int((event.id or "").rpartition("-")[2]) for event in events(recording) if event.id]


def said_text(*recordings: Recording) -> str:
    """The text that one client has put together."""
    said = [event for recording in recordings for event in events(recording) if event.event == "message"]
    return "".join(event.json()["t"] for event in said)


def stream_id(recording: Recording) -> str:
    found = recording.header("X-Stream-Id")
    assert found
    return found


def names(recording: Recording) -> list[str]:
    """The names of its events, a run of the same one once."""
    found: list[str] = []
    for event in events(recording):
        if found[-1:] != [event.event]:
            found.append(event.event)
    return found


def calls(model: Any, said: Script) -> list[dict[str, Any]]:
    """What the model was asked of this answer."""
    return [asked for asked in model.requests() if asked["model"] == said.model]


def store_url(request: Any, kind: str, folder: Any) -> str:
    """The URL of a new store: `memory`, `sqlite`, or `redis`, which shares its server with other tests."""
    if kind == "redis":
        return f"{request.getfixturevalue('redis_server').url}?prefix={secrets.token_hex(4)}:"
    return "memory:" if kind == "memory" else f"sqlite:{folder}/streams.db"


def wait_until(is_so: Any, seconds: float = PATIENCE) -> None:
    """Wait until it is so. It has to be, in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"expected {is_so} to become true within {seconds} s"
        time.sleep(0.01)
