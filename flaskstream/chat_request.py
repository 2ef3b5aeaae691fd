"""What a client asks: its JSON, or the fields of its form or query, as the upstream's payload."""

from __future__ import annotations

import json
from typing import Any, Iterable

from flask import request

MAX_DEPTH = 200
"""How deep lists and objects may be nested: more than any tool's schema, and less than Python can write again."""


def json_body() -> Any:
    """Return the request's JSON; `None` if it is none, or nested deeper than `MAX_DEPTH`."""
    try:
        body = json.loads(request.get_data(), parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return None if _is_too_deep(body) else body


def _is_too_deep(body: Any) -> bool:
    level = [body]
    for _ in range(MAX_DEPTH):
        level = [item for outer in level for item in _items(outer) if isinstance(item, (dict, list))]
    return bool(level)


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"expected JSON, got {name}")  # NaN and Infinity are Python's own


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):  # 1e999, which could not be written again
        raise ValueError(f"expected a number that a float can hold, got {text:.40}")
    return number


def chat_payload(model: str | None, may_choose_model: bool) -> dict[str, Any]:
    """Return the upstream's payload for this request to `/chat`.

    Args:
        model: whom to ask; `None`: none is named, and the upstream says whether it needs one.
        may_choose_model: the client may name another.

    Raises:
        ValueError: the question is missing, or is no question.
    """
    fields: Any = request.args
    if request.method == "POST":
        fields = json_body() if request.is_json else request.form
    if not hasattr(fields, "get"):
        raise ValueError('expected a JSON object {"q": "..."} or {"messages": [...]}, got something else')
    question, messages = fields.get("q"), fields.get("messages")
    if isinstance(question, str) and question:
        messages = [{"role": "user", "content": question}]
    if not isinstance(messages, list) or not messages:
        raise ValueError(
            'expected a question: "q" with some text, or in JSON (Content-Type: application/json) a list of "messages"'
        )
    if may_choose_model and isinstance(fields.get("model"), str):
        model = fields["model"]
    named = {} if model is None else {"model": model}
    return {**named, "messages": messages}
