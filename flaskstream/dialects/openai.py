"""OpenAI's chat completions, as OpenAI and a hundred others speak them.

https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flaskstream.dialects.dialect import Dialect, Reading, Usage
from flaskstream.dialects.fields import dict_of, dicts_of, json_object, name_of_error, number_of, text_of
from flaskstream.dialects.skimming import Skimmer
from flaskstream.dialects.tools import ToolFragment
from flaskstream.sse import TERMINAL_MARKS, Event, encode, to_json


def read_openai(event: Event) -> Reading:
    """Read an event of chat completions.

    Any of `[DONE]` and a `finish_reason` counts as the end: servers leave out the one or the other. `choices` may be
    empty (filters, usage), `delta` missing and `content` null. An error is told by an `error` (an object or a text), by
    the name of the event, by an object that calls itself one (vLLM), or within a choice (OpenRouter).
    """
    if event.event != "error" and event.data.strip() in TERMINAL_MARKS:
        return Reading(last=True)
    chunk = json_object(event)
    if event.event == "error" or (chunk and _is_error(chunk)):
        return Reading(error=name_of_error(chunk))
    if chunk is None:
        return Reading(malformed=True)
    choices = dicts_of(chunk.get("choices"))
    if any(choice.get("finish_reason") == "error" or choice.get("error") for choice in choices):
        return Reading(error="error")
    deltas = [dict_of(choice.get("delta")) for choice in choices if _index(choice) == 0]
    return Reading(
        text="".join(text_of(delta.get("content")) for delta in deltas),
        choices=tuple(map(_index, choices)),
        finished=tuple(_index(choice) for choice in choices if choice.get("finish_reason")),
        tools=tuple(_fragment(call) for delta in deltas for call in dicts_of(delta.get("tool_calls"))),
        usage=_usage(chunk.get("usage")),
    )


def _is_error(chunk: dict[str, Any]) -> bool:
    return bool(chunk.get("error")) or "error" in (chunk.get("object"), chunk.get("type"))


def _index(choice: dict[str, Any]) -> int:
    return number_of(choice.get("index")) or 0


def _fragment(call: dict[str, Any]) -> ToolFragment:
    function = dict_of(call.get("function"))
    return ToolFragment(
        number_of(call.get("index")),
        text_of(call.get("id")),
        text_of(function.get("name")),
        text_of(function.get("arguments")),
    )


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return Usage(*(number_of(usage.get(name)) for name in names))


def _error_event(code: str, message: str) -> bytes:
    return encode(Event(to_json({"error": {"message": message, "type": "server_error", "code": code}})))


class _Style(NamedTuple):
    """How the parts of a token's event are written."""

    choices: bytes = b'"choices":[{'
    delta: bytes = b'"delta":{"content":"'
    first_delta: bytes = b'"delta":{"role":"assistant","content":"'
    no_text: bytes = b'"content":""'
    first: bytes = b'"index":0'
    unfinished: bytes = b'"finish_reason":null'


def _spaced(compact: bytes) -> bytes:
    return compact.replace(b'":', b'": ').replace(b',"', b', "')


_COMPACT = _Style()
_SPACED = _Style(*map(_spaced, _COMPACT))
"""As Python's `json.dumps` writes it by itself."""


def count_openai(data: bytes) -> int:
    """Return how many tokens there are, if nothing else is in these bytes; see `Skimmer.count`.

    A name in JSON is written in one way only, unless somebody escapes letters for no reason; within a text its quotes
    are escaped. So what is counted here cannot hide.
    """
    style = _COMPACT if _COMPACT.choices in data else _SPACED
    events = data.count(b"\n\n")
    is_sure = (
        data.startswith(b'data: {"')
        and data.endswith(b"}\n\n")
        and data.count(b"\n") == 2 * events
        and data.count(b'\n\ndata: {"') == events - 1
        and data.count(style.choices) == events
        and data.count(style.delta) + data.count(style.first_delta) == events
        and data.count(b'"content":') == events
        and style.no_text not in data
        and data.count(b'"index":') == data.count(style.first)
        and data.count(b"finish_reason") == data.count(style.unfinished)
        and b"error" not in data
        and b"\r" not in data
    )
    return events if is_sure else 0


_SKIMMER = Skimmer((b'"content":"', b'"content": "'), count_openai)

OPENAI = Dialect("openai", "chat/completions", read_openai, _error_event, skimmer=_SKIMMER)
