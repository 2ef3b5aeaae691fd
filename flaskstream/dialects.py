"""What the events of a model API mean: which are text, which end the answer, which are errors. Pure.

A dialect is one entry of `DIALECTS`: where its requests go, and one function that reads one event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from flaskstream.sse import TERMINAL_MARKS, Event, encode, to_json


@dataclass(frozen=True)
class Reading:
    """What one event says.

    Attributes:
        text: of the answer; may be empty.
        choices: which of the answers, where several were asked for, it goes on with.
        finished: which of them are whole now; more may follow that is no text, such as the usage.
        last: all is said.
        error: the upstream reports a failure: a short name of it, never its message, which may quote secrets.
        malformed: it is no event of this dialect. The stream goes on without it.
    """

    text: str = ""
    choices: tuple[int, ...] = ()
    finished: tuple[int, ...] = ()
    last: bool = False
    error: str | None = None
    malformed: bool = False


@dataclass(frozen=True)
class Dialect:
    """One model API.

    Attributes:
        name: its key in `DIALECTS`.
        path: where a chat request goes, below the upstream's base URL.
        read: tells what one event says.
        error_event: the bytes with which this API reports an error inside a stream, given a code and a message.
    """

    name: str
    path: str
    read: Callable[[Event], Reading]
    error_event: Callable[[str, str], bytes]


def read_openai(event: Event) -> Reading:
    """Read an event of OpenAI's chat completions (https://platform.openai.com/docs/api-reference/chat-streaming).

    Any of `[DONE]` and a `finish_reason` counts as the end: servers leave out the one or the other. `choices` may be
    empty (filters, usage), `delta` missing and `content` null. An error is told by an `error` object, by the name of
    the event, by an object that calls itself one (vLLM), or by the `finish_reason` (OpenRouter). Anything may be
    anything: what is not of the type that it should be is not there.
    """
    if event.event != "error" and event.data.strip() in TERMINAL_MARKS:
        return Reading(last=True)
    chunk = _json_object(event)
    if event.event == "error" or (chunk and _is_error(chunk)):
        return Reading(error=_error_name(chunk))
    if chunk is None:
        return Reading(malformed=True)
    choices = _dicts(chunk.get("choices"))
    if any(choice.get("finish_reason") == "error" for choice in choices):
        return Reading(error="error")
    return Reading(
        text="".join(_content(choice) for choice in choices if _index(choice) == 0),
        choices=tuple(map(_index, choices)),
        finished=tuple(_index(choice) for choice in choices if choice.get("finish_reason")),
    )


def _json_object(event: Event) -> dict[str, Any] | None:
    try:
        value = event.json()
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_error(chunk: dict[str, Any]) -> bool:
    return bool(chunk.get("error")) or "error" in (chunk.get("object"), chunk.get("type"))


def _error_name(chunk: dict[str, Any] | None) -> str:
    error = (chunk or {}).get("error") or chunk
    if isinstance(error, dict):
        return str(error.get("type") or error.get("code") or "error")
    return "error"


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _index(choice: dict[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _content(choice: dict[str, Any]) -> str:
    delta = choice.get("delta")
    content = delta.get("content") if isinstance(delta, dict) else None
    return content if isinstance(content, str) else ""


def _openai_error(code: str, message: str) -> bytes:
    return encode(Event(to_json({"error": {"message": message, "type": "server_error", "code": code}})))


OPENAI = Dialect("openai", "chat/completions", read_openai, _openai_error)

DIALECTS = {dialect.name: dialect for dialect in (OPENAI,)}
