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
        finished: the answer is whole; more may follow that is no text, such as the usage.
        last: and nothing more will follow.
        error: the upstream reports a failure: a short name of it, never its message, which may quote secrets.
        malformed: it is no event of this dialect: an excerpt. The stream goes on without it.
    """

    text: str = ""
    finished: bool = False
    last: bool = False
    error: str | None = None
    malformed: str | None = None


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
    empty (filters, usage), `delta` missing and `content` null.
    """
    if event.data in TERMINAL_MARKS:
        return Reading(finished=True, last=True)
    try:
        chunk = event.json()
    except ValueError:
        return Reading(malformed=event.data[:80])
    if not isinstance(chunk, dict):
        return Reading(malformed=event.data[:80])
    if event.event == "error" or chunk.get("error"):
        return Reading(error=_error_name(chunk.get("error", chunk)))
    choices = [choice for choice in chunk.get("choices") or () if isinstance(choice, dict)]
    return Reading(
        text="".join(_content(choice) for choice in choices if not choice.get("index")),
        finished=any(choice.get("finish_reason") for choice in choices),
    )


def _content(choice: dict[str, Any]) -> str:
    content = (choice.get("delta") or {}).get("content")
    return content if isinstance(content, str) else ""


def _error_name(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("type") or error.get("code") or "error")[:80]
    return "error"


def _openai_error(code: str, message: str) -> bytes:
    return encode(Event(to_json({"error": {"message": message, "type": "server_error", "code": code}})))


OPENAI = Dialect("openai", "chat/completions", read_openai, _openai_error)

DIALECTS = {dialect.name: dialect for dialect in (OPENAI,)}
