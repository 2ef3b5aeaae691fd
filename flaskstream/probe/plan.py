"""What a probe can be asked for: each parameter with its bounds, read from a request or written into one. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Callable, Collection, Iterable
from urllib.parse import urlencode

from flaskstream.errors import InvalidSetting

CONTENT_TYPES = {
    "event-stream": "text/event-stream",
    "plain": "text/plain; charset=utf-8",
    "ndjson": "application/x-ndjson",
}
"""The types in which ticks can come, and their `Content-Type`. In all but the first a tick is a line."""

EVENTS = "event-stream"


@dataclass(frozen=True)
class Bounds:
    """A whole number between two others."""

    field: str
    lowest: int
    highest: int


NUMBERS = {
    "count": Bounds("count", 1, 1000),
    "interval": Bounds("interval_ms", 5, 10_000),
    "pad": Bounds("pad", 0, 65_536),
    "silence": Bounds("silence_ms", 0, 600_000),
    "heartbeat": Bounds("heartbeat_ms", 0, 60_000),
}

HEADERS = ("X-Accel-Buffering", "Cache-Control", "Content-Encoding")
"""The headers of the answer that a client may set, or leave out."""

MAX_IGNORED = 10
"""Parameters that mean nothing here, such as a token of the site's: more are a mistake."""

MISSPELLED = 0.81
"""A name that is as much like one of ours is a slip, not another's: `intervall` is, and `uid` is not."""

_SHOWN_CHARACTERS = 60

_PROBE_ID = re.compile("[0-9a-f]{8,32}")
_HEADER_VALUE = re.compile("[!-~](?:[ -~]{0,198}[!-~])?|")


@dataclass(frozen=True)
class ProbePlan:
    """How one probe goes.

    Attributes:
        count: ticks after the first one, which comes at once.
        interval_ms: from one to the next.
        pad: bytes more in each tick.
        type: one of `CONTENT_TYPES`.
        silence_ms: so much longer is the wait after half of the ticks.
        heartbeat_ms: silence after which a comment is sent, in events only; 0: never.
        headers: of the answer, each out of `HEADERS` and once; an empty value: this one is left out.
        probe_id: what the probe can be asked after by, 8 to 32 characters of 0-9 and a-f; `None`: nobody will.
        ignored: names of parameters that came and mean nothing here; never their values, which may be secrets.

    Raises:
        InvalidSetting: a value is none of these; says what was expected and what came.
    """

    count: int = 20
    interval_ms: int = 100
    pad: int = 0
    type: str = EVENTS
    silence_ms: int = 0
    heartbeat_ms: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    probe_id: str | None = None
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, bounds in NUMBERS.items():
            value = getattr(self, bounds.field)
            if not isinstance(value, int) or not bounds.lowest <= value <= bounds.highest:
                raise _not(name, f"a whole number from {bounds.lowest} to {bounds.highest}", value)
        if self.type not in CONTENT_TYPES:
            raise _not("type", f"one of {', '.join(CONTENT_TYPES)}", self.type)
        if self.heartbeat_ms and self.type != EVENTS:
            raise _not("heartbeat", f"0 with type={self.type}, which has no comments", self.heartbeat_ms)
        for name, value in self.headers:
            _check_header(name, value)
        if len({name for name, _ in self.headers}) < len(self.headers):
            raise _not("header", "each name once", ", ".join(name for name, _ in self.headers))
        if self.probe_id is not None:
            check_probe_id("id", self.probe_id)

    @classmethod
    def parse(cls, parameters: Iterable[tuple[str, str]]) -> ProbePlan:
        """Return what a request asks for with these pairs; what it does not name is as usual.

        Raises:
            InvalidSetting: it is one of ours misspelled, comes twice, or its value does not work.
        """
        found: dict[str, Any] = {}
        others: dict[str, None] = {}  # a set that keeps their order
        for name, text in parameters:
            if name not in _PARAMETERS:
                others[name] = None
                continue
            field, read = _PARAMETERS[name]
            value = read(text)
            if field == "headers":
                value = (*found.get(field, ()), value)
            elif field in found:
                raise _not(name, "it once", text)
            found[field] = value
        return cls(**found, ignored=_others(others))

    def query(self) -> str:
        """Return these pairs as a query string, without those that are as usual."""
        pairs = []
        for name, (field, _) in _PARAMETERS.items():
            value = getattr(self, field)
            if field == "headers":
                pairs += [(name, f"{header}:{its_value}") for header, its_value in value]
            elif value != _DEFAULTS[field]:
                pairs.append((name, str(value)))
        return urlencode(pairs)

    def due_ms(self, tick: int) -> float:
        """Return when a tick is due, in milliseconds after the request has reached the app."""
        silence = self.silence_ms if tick > self.count // 2 else 0
        return float(tick * self.interval_ms + silence)


def pairs_of(body: Any, text: str) -> list[tuple[str, str]]:
    """Return the pairs that a JSON object says, as a form would; a list is a name that comes several times.

    Args:
        body: the object.
        text: as it came, to be shown.

    Raises:
        InvalidSetting: it is none.
    """
    if not isinstance(body, dict):
        raise _not("probe", "a JSON object", text)
    return [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, values in body.items()
        for value in (values if isinstance(values, list) else [values])
    ]


def _others(names: Collection[str]) -> tuple[str, ...]:
    """Return the names of parameters that are not ours, to be ignored."""
    if len(names) > MAX_IGNORED:
        raise _not("probe", f"at most {MAX_IGNORED} parameters that mean nothing here", len(names))
    for name in names:
        meant = get_close_matches(name.lower(), PARAMETERS, 1, MISSPELLED)
        if meant:
            raise _not("probe", f"parameters out of {', '.join(_PARAMETERS)} ({meant[0]}?)", name)
    return tuple(name[:_SHOWN_CHARACTERS] for name in names)


def check_probe_id(parameter: str, value: str) -> None:
    """Raise `InvalidSetting` if this names no probe."""
    if not _PROBE_ID.fullmatch(value):
        raise _not(parameter, "8 to 32 characters of 0-9 and a-f", value)


def _check_header(name: str, value: str) -> None:
    if name not in HEADERS:
        raise _not("header", f"Name:value with a name out of {', '.join(HEADERS)}", name)
    if not _HEADER_VALUE.fullmatch(value):
        raise _not("header", f"up to 200 visible characters for {name}", value)
    if name == "Content-Encoding" and value not in ("", "identity"):
        raise _not("header", f"identity or nothing for {name}", value)


def _whole_number(text: str) -> Any:
    """Return the number; what is none is returned as it is, and refused with its bounds."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else text


def _header(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    known = {header.lower(): header for header in HEADERS}
    return known.get(name.strip().lower(), name), value.strip(" ")


def _not(name: str, expected: str, came: Any) -> InvalidSetting:
    return InvalidSetting(f"{name}: expected {expected}, got {str(came)[:_SHOWN_CHARACTERS]!r}")


_PARAMETERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    **{name: (bounds.field, _whole_number) for name, bounds in NUMBERS.items()},
    "type": ("type", str),
    "header": ("headers", _header),
    "id": ("probe_id", str),
}
"""The parameters, the field of each, and what reads it."""

PARAMETERS = frozenset(_PARAMETERS)
"""All that a request can say."""

_DEFAULTS = {field.name: field.default for field in fields(ProbePlan)}
