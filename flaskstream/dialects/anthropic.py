"""Anthropic's messages: named events.

https://docs.anthropic.com/en/docs/build-with-claude/streaming
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from flaskstream.dialects.dialect import Dialect, Reading, Usage
from flaskstream.dialects.fields import dict_of, json_object, name_of_error, number_of, text_of
from flaskstream.dialects.tools import ToolFragment
from flaskstream.sse import TERMINAL_MARKS, Event, encode, to_json

MAX_TOKENS = 4096
"""For requests that name no `max_tokens`, which the API insists on: what every model of it can say."""

VERSION = "2023-06-01"
"""The version of the API whose events are read here."""


def read_anthropic(event: Event) -> Reading:
    """Read an event of a message; `ping` and what the table below does not name says nothing of the answer.

    `message_stop` is the end (and `[DONE]`, which gateways add), and a `stop_reason` says that all text is here. Some
    gateways leave the names of the events out: then `type` in the data tells them.
    """
    if event.event == "message" and event.data.strip() in TERMINAL_MARKS:
        return Reading(last=True)
    data = json_object(event)
    name = event.event if event.event != "message" else text_of((data or {}).get("type"))
    if name == "error" or (data and data.get("error")):
        return Reading(error=name_of_error(data))
    if data is None:
        return Reading(malformed=name != "ping")
    read = _READERS.get(name)
    return read(data) if read else Reading()


def _start(data: dict[str, Any]) -> Reading:
    return Reading(choices=(0,), usage=_usage(dict_of(data.get("message")).get("usage")))


def _block(data: dict[str, Any]) -> Reading:
    block = dict_of(data.get("content_block"))
    if block.get("type") != "tool_use":
        return Reading(text=text_of(block.get("text")), part=True)
    identity, name = text_of(block.get("id")), text_of(block.get("name"))
    arguments = to_json(block["input"]) if block.get("input") else ""  # it is {} where the deltas say it
    return Reading(tools=(ToolFragment(number_of(data.get("index")), identity, name, arguments),))


def _delta(data: dict[str, Any]) -> Reading:
    delta = dict_of(data.get("delta"))
    if delta.get("type") == "input_json_delta":
        arguments = text_of(delta.get("partial_json"))
        return Reading(tools=(ToolFragment(number_of(data.get("index")), arguments=arguments),))
    # No other kind has a text: thinking, its signature, citations.
    return Reading(text=text_of(delta.get("text")), part=True)


def _message_delta(data: dict[str, Any]) -> Reading:
    stopped = dict_of(data.get("delta")).get("stop_reason")
    return Reading(finished=(0,) if stopped else (), usage=_usage(data.get("usage")), part=True)


_READERS: dict[str, Callable[[dict[str, Any]], Reading]] = {
    "message_start": _start,
    "content_block_start": _block,
    "content_block_delta": _delta,
    "content_block_stop": lambda data: Reading(part=True),
    "message_delta": _message_delta,
    "message_stop": lambda data: Reading(last=True),
}


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(number_of(usage.get("input_tokens")), number_of(usage.get("output_tokens")))


def _request(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Messages of the system stand apart here, and `max_tokens` must be there."""
    request = {"max_tokens": MAX_TOKENS, **payload}
    messages = request.get("messages")
    if isinstance(messages, list):
        system = [block for message in messages if _is_system(message) for block in _blocks(message.get("content"))]
        request["messages"] = [message for message in messages if not _is_system(message)]
        if system:
            request.setdefault("system", system)
    return request


def _is_system(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") in ("system", "developer")


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": text_of(content)}]


def _error_event(code: str, message: str) -> bytes:
    error = {"type": "api_error", "message": message, "code": code}
    return encode(Event(to_json({"type": "error", "error": error}), "error"))


ANTHROPIC = Dialect(
    "anthropic",
    "messages",
    read_anthropic,
    _error_event,
    request=_request,
    headers={"anthropic-version": VERSION},
    key_header=("x-api-key", "{}"),
    client_headers=("anthropic-version", "anthropic-beta"),
    ping=encode(Event(to_json({"type": "ping"}), "ping")),
)
