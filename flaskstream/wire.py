"""What a stream looks like on the wire: one small class for each form, all without input or output."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Iterator, Protocol

from flaskstream.errors import FlaskStreamError, InvalidEvent
from flaskstream.sse import Event, encode, encode_comment, to_json

HEARTBEAT = "hb"


class Wire(Protocol):
    """How the items of a stream, its beginning, its pauses and its ends are written."""

    cuts: bool
    """A failed stream is cut: its connection is closed without a proper end, for clients that know no error event."""

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        """Yield what `frame` takes. Runs where the source runs, so a bad item is the source's own error."""
        ...

    def frame(self, item: Any) -> bytes:
        """Return one item's bytes."""
        ...

    def comment(self, text: str) -> bytes:
        """Return what means nothing to the client and keeps the connection alive."""
        ...

    def done(self, stream_id: str) -> bytes:
        """Return what ends a whole answer; may be empty."""
        ...

    def failed(self, error: Exception, stream_id: str) -> bytes:
        """Return what ends a failed answer."""
        ...


class EventWire:
    """Events of ours: named ends, and errors that any client can read.

    Args:
        retry: the reconnection time that the first event carries, in milliseconds; `None`: none.
    """

    cuts = False

    def __init__(self, retry: int | None = None) -> None:
        self._retry = retry
        self._count = 0
        self._has_ids = False

    def items(self, source: Iterator[Any]) -> Iterator[Event]:
        for item in source:
            event = as_event(item)
            if event is not None:
                yield event

    def frame(self, item: Event) -> bytes:
        self._count += 1
        self._has_ids = self._has_ids or item.id is not None
        return self._block(item)

    def _block(self, event: Event) -> bytes:
        """Return an event's bytes, with the reconnection time in the first one's: alone it upsets some readers."""
        retry, self._retry = self._retry, None
        if retry is not None and event.retry is None:
            event = replace(event, retry=retry)
        return encode(event)

    def comment(self, text: str) -> bytes:
        return encode_comment(text, block=not self._has_ids)

    def done(self, stream_id: str) -> bytes:
        """End the answer with the only id of ours: a client that comes back with it needs no second answer."""
        return self._block(Event(to_json({"events": self._count}), "done", id=done_id(stream_id)))

    def failed(self, error: Exception, stream_id: str) -> bytes:
        return self._block(Event(to_json(describe(error, stream_id)), "error"))


def as_event(item: Any) -> Event | None:
    """Return the event that a user's item stands for, `None` for an empty one: an empty event ends some readers.

    Args:
        item: an `Event`, a str (the data of one event), or a dict or list (sent as JSON).

    Raises:
        TypeError: it is something else.
        InvalidEvent: it cannot be sent.
    """
    if isinstance(item, Event):
        if not item.data:
            raise InvalidEvent('data: expected some text, got "": readers disagree about an event without any')
        return item
    if isinstance(item, str):
        return Event(item) if item else None
    if isinstance(item, (dict, list)):
        return Event(to_json(item))
    if item is None or (isinstance(item, bytes) and not item):
        return None
    raise TypeError(f"expected a str, dict, list or Event from the generator, got {type(item).__name__}: {item!r:.80}")


def describe(error: Exception, stream_id: str) -> dict[str, str]:
    """Return what a client may know of an error: a stable code, a sentence, and the id to look for in the log."""
    known = error if isinstance(error, FlaskStreamError) else FlaskStreamError()
    return {"code": known.code, "message": known.message, "id": stream_id}


_DONE = re.compile("done-[0-9a-f]+")  # and no id of a user's own that begins in the same way


def done_id(stream_id: str) -> str:
    """Return the id that the closing event carries."""
    return "done-" + stream_id


def is_done_id(last_event_id: str) -> bool:
    """Tell whether a reconnecting client has had the whole answer: native `EventSource` comes back after every end."""
    return _DONE.fullmatch(last_event_id) is not None
