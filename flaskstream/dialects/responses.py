"""OpenAI's responses API: named events.

https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from flaskstream.dialects.dialect import Dialect, Reading, Usage
from flaskstream.dialects.fields import dict_of, json_object, name_of_error, number_of, text_of
from flaskstream.dialects.tools import ToolFragment
from flaskstream.sse import TERMINAL_MARKS, Event, encode, to_json


def read_responses(event: Event) -> Reading:
    """Read an event of the responses API; what the table below does not name says nothing of the answer.

    `response.completed` and `response.incomplete` (a limit or a filter) are the end, and `[DONE]`, which gateways add.
    `response.failed` and `error` are errors.
    """
    if event.event == "message" and event.data.strip() in TERMINAL_MARKS:
        return Reading(last=True)
    data = json_object(event)
    name = event.event if event.event != "message" else text_of((data or {}).get("type"))
    if name == "error" or (data and data.get("error")):
        return Reading(error=_name_of_error(data))
    if data is None:
        return Reading(malformed=True)
    read = _READERS.get(name)
    return read(data) if read else Reading(part=name.startswith("response."))  # such as reasoning


def _text(data: dict[str, Any]) -> Reading:
    return Reading(text=text_of(data.get("delta")), part=True)


def _item(data: dict[str, Any]) -> Reading:
    item = dict_of(data.get("item"))
    if item.get("type") != "function_call":
        return Reading(part=True)
    identity = text_of(item.get("call_id")) or text_of(item.get("id"))
    return Reading(tools=(ToolFragment(number_of(data.get("output_index")), identity, text_of(item.get("name"))),))


def _arguments(data: dict[str, Any]) -> Reading:
    fragment = ToolFragment(number_of(data.get("output_index")), arguments=text_of(data.get("delta")))
    return Reading(tools=(fragment,))


def _end(data: dict[str, Any]) -> Reading:
    usage = dict_of(data.get("response")).get("usage")
    names = ("input_tokens", "output_tokens", "total_tokens")
    told = Usage(*(number_of(usage.get(name)) for name in names)) if isinstance(usage, dict) else None
    return Reading(last=True, usage=told)


def _failed(data: dict[str, Any]) -> Reading:
    return Reading(error=name_of_error(dict_of(dict_of(data.get("response")).get("error"))))


_READERS: dict[str, Callable[[dict[str, Any]], Reading]] = {
    "response.output_text.delta": _text,
    "response.output_item.added": _item,
    "response.function_call_arguments.delta": _arguments,
    "response.completed": _end,
    "response.incomplete": _end,
    "response.failed": _failed,
}


def _name_of_error(data: dict[str, Any] | None) -> str:
    """The `type` of an error that stands alone says "error"; its `code` says which."""
    return name_of_error(data if data is None or data.get("error") else {**data, "type": None})


def _request(payload: Mapping[str, Any]) -> dict[str, Any]:
    request = dict(payload)
    if "messages" in request:
        request.setdefault("input", request.pop("messages"))
    return request


def _error_event(code: str, message: str) -> bytes:
    return encode(Event(to_json({"type": "error", "code": code, "message": message, "param": None}), "error"))


RESPONSES = Dialect("responses", "responses", read_responses, _error_event, request=_request)
