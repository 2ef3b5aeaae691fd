"""The ticks of a probe as they look on the wire: written by the route, read by whoever asked for them. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Iterator, Mapping

from flaskstream.sse import Event, to_json
from flaskstream.wire import EventWire, describe

_OWN_NAMES = ("n", "due_ms", "sent_ms", "pad")


@dataclass(frozen=True)
class Tick:
    """One tick. Its times are in milliseconds after the request had reached the app.

    Attributes:
        n: its number; 0 is the first.
        due_ms: when it was to be sent.
        sent_ms: when it was handed to the server.
        pad: characters that no compressor makes much shorter.
        told: what the first tick says of the app besides; empty in the others.
    """

    n: int
    due_ms: float
    sent_ms: float
    pad: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as one line."""
        own = {"n": self.n, "due_ms": round(self.due_ms, 3), "sent_ms": round(self.sent_ms, 3)}
        return to_json({**own, **self.told, "pad": self.pad})

    @classmethod
    def parse(cls, text: str) -> Tick | None:
        """Return the tick that the data of an event, or a line, is; `None`: it is none."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict) or not all(is_finite(found.get(name)) for name in _OWN_NAMES[:3]):
            return None
        told = {name: value for name, value in found.items() if name not in _OWN_NAMES}
        return cls(int(found["n"]), found["due_ms"], found["sent_ms"], str(found.get("pad", "")), told)


def is_finite(value: Any) -> bool:
    """Tell whether this is a number that can be reckoned with: JSON as Python reads it knows others."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


TickData = Callable[[int], str]
"""Returns a tick's JSON, stamped with the time at which it is called."""


class TickEvents(EventWire):
    """Ticks as the data of events, stamped when they leave and not when they were made.

    Args:
        data: see `TickData`.
        more: as for `EventWire`.
    """

    counted = False

    def __init__(self, data: TickData, *more: Any) -> None:
        super().__init__(*more)
        self._data = data

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        return source

    def frame(self, item: Any) -> bytes:
        return super().frame(Event(self._data(item)))


class TickLines:
    """Ticks as lines. What means nothing is an empty line. A failed one is cut: lines have no other end."""

    cuts = True
    counted = False
    single: Collection[type] = ()
    restart = b""

    def __init__(self, data: TickData) -> None:
        self._data = data

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        return source

    def frame(self, item: Any) -> bytes:
        return self._data(item).encode() + b"\n"

    def tokens(self, item: Any) -> int:
        return 1

    def opening(self) -> bytes:
        return b"\n"

    def heartbeat(self) -> bytes:
        return b"\n"

    def done(self, stream_id: str) -> bytes:
        return b""

    def failed(self, error: Exception, stream_id: str) -> bytes:
        return to_json({"error": describe(error, stream_id)}).encode() + b"\n"
