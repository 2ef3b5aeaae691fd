"""Upstreams that send nothing but text, as events or as lines: the body's own end is the end of the answer."""

from __future__ import annotations

from flaskstream.dialects.dialect import Dialect, Reading
from flaskstream.dialects.fields import json_object, name_of_error
from flaskstream.dialects.framings import TEXT_LINES
from flaskstream.sse import TERMINAL_MARKS, Event, encode, to_json


def read_plain(event: Event) -> Reading:
    """Read an event: its data is a token, unless it is named otherwise."""
    if event.event == "error":
        return Reading(error=name_of_error(json_object(event)))
    if event.event == "done" or event.data in TERMINAL_MARKS:
        return Reading(last=True)
    return Reading() if event.event == "ping" else Reading(text=event.data)


def read_text(event: Event) -> Reading:
    """Read a line: it is a token, with its line end."""
    return Reading(text=event.data)


def _error_event(code: str, message: str) -> bytes:
    return encode(Event(to_json({"code": code, "message": message}), "error"))


def _no_error(code: str, message: str) -> bytes:
    return b""  # whatever is written here is text


PLAIN = Dialect("plain", "", read_plain, _error_event, ends_with_body=True)

TEXT = Dialect("text", "", read_text, _no_error, TEXT_LINES, ends_with_body=True)
