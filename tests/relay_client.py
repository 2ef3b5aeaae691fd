"""Clients of the relay's two routes: what they ask, and how they read what came."""

from __future__ import annotations

import json
from typing import Any

from flaskstream.doctor.measure import Recording, Request, record
from flaskstream.sse import Event

CHAT = "/stream/chat"
COMPLETIONS = "/stream/v1/chat/completions"
MESSAGES = "/stream/v1/messages"
JSON = ("Content-Type", "application/json")


def post(server: Any, path: str, fields: Any, *headers: tuple[str, str]) -> Request:
    return Request(server.url + path, "POST", (JSON, *headers), json.dumps(fields).encode(), timeout=30)


def chat(
    server: Any, model: str, *headers: tuple[str, str], stop_after: int | None = None, path: str = CHAT
) -> Recording:
    """Ask for an answer as events of our own."""
    return record(post(server, path, {"q": "hello", "model": model}, *headers), stop_after)


def complete(
    server: Any,
    model: str,
    *headers: tuple[str, str],
    stop_after: int | None = None,
    path: str = COMPLETIONS,
    **more: Any,
) -> Recording:
    """Ask for an answer in the upstream's own format."""
    fields = {"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": True, **more}
    return record(post(server, path, fields, *headers), stop_after)


def events(recording: Recording) -> list[Event]:
    return [timed.event for timed in recording.events]


def text(recording: Recording) -> str:
    """The text that came as events of our own."""
    return "".join(event.json()["t"] for event in events(recording) if event.event == "message")


def end(recording: Recording) -> Event:
    """The event that ends a stream of ours. It is the only one, and the connection ends as it should."""
    names = [event.event for event in events(recording)]
    assert [name for name in names if name != "message"] == names[-1:]
    assert recording.framing_complete and not recording.error
    return events(recording)[-1]


def error_code(recording: Recording) -> str:
    """The code with which a stream of ours failed."""
    last = end(recording)
    assert last.event == "error"
    assert sorted(last.json()) == ["code", "id", "message"]
    return str(last.json()["code"])
