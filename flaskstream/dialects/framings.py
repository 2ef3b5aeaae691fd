"""How events are cut out of bytes: the event stream of the HTML standard, or a line for each. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Protocol

from flaskstream.errors import EventTooLarge
from flaskstream.sse import MAX_EVENT_BYTES, Decoder, Event, encode, end_of_blocks


class EventDecoder(Protocol):
    """Bytes in, events out."""

    truncated: bool
    """After `close()`: the bytes ended inside an event, which was dropped."""

    @property
    def is_inside(self) -> bool:
        """Something is held of an event, or of a line, that is not whole."""
        ...

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that are whole now. Raises `EventTooLarge`."""
        ...

    def close(self) -> list[Event]:
        """Return the last event, if it is whole though its end is missing. Raises `EventTooLarge`."""
        ...


@dataclass(frozen=True)
class Framing:
    """One way to put events into a body.

    Attributes:
        types: what such a body calls itself, the usual name first.
        decoder: makes a decoder, given a function to call with each line that belongs to no event.
        end: returns where the last whole event in a buffer ends (0: none does), given how much of it was searched.
        encode: writes an event.
    """

    types: tuple[str, ...]
    decoder: Callable[[Callable[[str], None]], EventDecoder]
    end: Callable[[bytearray, int], int]
    encode: Callable[[Event], bytes]


class LineDecoder:
    """Each line is an event, and its text the event's data.

    Args:
        is_text: every line counts, and keeps its line end, for it is a part of the text. `False`: a line is JSON, empty
            ones separate, and a last line without its end counts if it is whole all the same.
        max_event_bytes: the limit for one line, and so for the memory held.
    """

    def __init__(self, is_text: bool, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._is_text = is_text
        self._max = max_event_bytes
        self._line = bytearray()  # the line that has no end yet
        self._failure: EventTooLarge | None = None
        self.truncated = False

    @property
    def is_inside(self) -> bool:
        return bool(self._line)

    def feed(self, data: bytes) -> list[Event]:
        if self._failure:
            raise self._failure
        *lines, unfinished = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._line) + lines[0]
            self._line.clear()
        self._line += unfinished
        events = self._events(lines)
        if len(self._line) > self._max:
            self._fail(len(self._line))
        if self._failure and not events:
            raise self._failure
        return events

    def _events(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            if len(line) > self._max:
                self._fail(len(line))
                break
            events += self._event(line[:-1] if line.endswith(b"\r") else line, "\n")
        return events

    def _fail(self, size: int) -> None:
        """Give up; the events before it are not lost: the next call raises."""
        self._failure = EventTooLarge(f"expected a line of at most {self._max} bytes, got {size} before its end")
        self._line.clear()

    def _event(self, line: bytes, line_end: str) -> list[Event]:
        text = line.decode("utf-8", "replace")
        if self._is_text:
            return [Event(text + line_end)]
        return [Event(text)] if text.strip() else []

    def close(self) -> list[Event]:
        if self._failure:
            raise self._failure
        events = self._event(bytes(self._line), "") if self._line else []
        if events and not self._is_text and not _is_object(events[0]):
            self.truncated = True
            return []
        return events


def _is_object(event: Event) -> bool:
    try:
        return isinstance(event.json(), dict)
    except ValueError:
        return False


def _end_of_lines(buffer: bytearray, searched: int) -> int:
    return buffer.rfind(b"\n", searched) + 1


EVENTS = Framing(("text/event-stream",), lambda warn: Decoder("llm", on_ignored_line=warn), end_of_blocks, encode)

JSON_LINES = Framing(
    ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/json"),
    lambda warn: LineDecoder(is_text=False),
    _end_of_lines,
    lambda event: (event.data + "\n").encode(),
)

TEXT_LINES = replace(
    JSON_LINES,
    types=("text/plain",),
    decoder=lambda warn: LineDecoder(is_text=True),
    encode=lambda event: event.data.encode(),
)
