"""Ollama's own chat API: a line of JSON for each token.

https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion
"""

from __future__ import annotations

from typing import Any

from flaskstream.dialects.dialect import Dialect, Reading, Usage
from flaskstream.dialects.fields import dict_of, dicts_of, json_object, name_of_error, number_of, text_of
from flaskstream.dialects.framings import JSON_LINES
from flaskstream.dialects.tools import ToolFragment
from flaskstream.sse import Event, to_json


def read_ollama(event: Event) -> Reading:
    """Read a line: `done` is the end, `error` a failure."""
    line = json_object(event)
    if line is None:
        return Reading(malformed=True)
    if line.get("error"):
        return Reading(error=name_of_error(line))
    message = dict_of(line.get("message"))
    is_done = line.get("done") is True
    return Reading(
        text=text_of(message.get("content")),
        last=is_done,
        tools=tuple(map(_fragment, dicts_of(message.get("tool_calls")))),
        usage=Usage(number_of(line.get("prompt_eval_count")), number_of(line.get("eval_count"))) if is_done else None,
        part=bool(message),  # thinking, too
    )


def _fragment(call: dict[str, Any]) -> ToolFragment:
    """A call comes whole here, its arguments are an object, and not every version numbers it."""
    function = dict_of(call.get("function"))
    return ToolFragment(
        number_of(function.get("index")),
        text_of(call.get("id")),
        text_of(function.get("name")),
        to_json(dict_of(function.get("arguments"))),
        opens=True,
    )


def _error_line(code: str, message: str) -> bytes:
    return (to_json({"error": message, "code": code}) + "\n").encode()


OLLAMA = Dialect("ollama", "api/chat", read_ollama, _error_line, JSON_LINES)
