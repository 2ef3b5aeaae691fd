"""Read what others have written as JSON: what is not of the type that it should be is not there."""

from __future__ import annotations

from typing import Any

from flaskstream.sse import Event


def json_object(event: Event) -> dict[str, Any] | None:
    """Return the data of an event as an object; `None` if it is none."""
    try:
        value = event.json()
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def dict_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def dicts_of(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def name_of_error(chunk: dict[str, Any] | None) -> str:
    """Return a short name for the error in, or beside, `error`; never its message."""
    error = (chunk or {}).get("error") or chunk
    if isinstance(error, dict):
        return str(error.get("type") or error.get("code") or "error")
    return "error"
