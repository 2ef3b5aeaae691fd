"""Server-sent events without input or output: `Event`, `encode`, and a `Decoder`.

The decoder is the event-stream interpretation of the HTML standard to the letter
(https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
Its strategy: bytes stay bytes until an event is whole. A chunk is cut into lines once, by C code, and
only what is unfinished is kept and appended to; so no byte is looked at twice, wherever the network
cut. UTF-8 is decoded one event at a time, so a character cut by the network is never torn.

The encoder writes the dialect that every public decoder tried reads alike: LF only, one space after
the colon, `id` and `retry` only together with data. It refuses what the wire cannot say.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Callable

from flaskstream.errors import EventTooLarge, InvalidEvent

MAX_EVENT_BYTES = 10 * 1024 * 1024
"""The default limit for one event: tool calls with a picture inside are megabytes, endless lines are not."""

TERMINAL_MARKS = frozenset({"[DONE]"})
"""Data that ends an answer though it is not JSON."""

_BOM = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS = 18  # past any wait that is meant; Python refuses to parse numbers without end
_MAX_RETRY = 10**_MAX_RETRY_DIGITS - 1
_JSON_HINT = " (to send it as JSON: yield it without an Event, or give it to json.dumps)"


@dataclass(frozen=True)
class Event:
    """One event; valid from birth.

    Args:
        data: the text. Any line end in it (CR, LF, CRLF) is read back as LF: the format has no other.
        event: the name; the standard's default is "message", which is not written.
        id: the id that this event itself carries. `None`: it carries none. `""` resets the client's last id.
        retry: how long a client waits before it reconnects, in milliseconds.
        last_event_id: set by the decoder: the last id of the stream when this event was whole
            (`lastEventId` of the standard). It takes no part in comparison, and is never written.

    Raises:
        InvalidEvent: the name or the id holds a line end, the id a NUL, `retry` is no whole number of
            milliseconds, or a text cannot be written as UTF-8.
    """

    data: str
    event: str = "message"
    id: str | None = None
    retry: int | None = None
    last_event_id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check_text("data", self.data)
        _check_text("event", self.event, forbidden="\r\n")
        if not self.event:
            raise InvalidEvent('event: expected a name, got "" (leave it out for "message")')
        if self.id is not None:
            _check_text("id", self.id, forbidden="\r\n\0")
        if self.retry is not None:
            _check_retry(self.retry)

    def json(self) -> Any:
        """Return the data, parsed as JSON.

        Raises:
            ValueError: it is no JSON (`json.JSONDecodeError`), or nested deeper than Python follows.
        """
        try:
            return json.loads(self.data)
        except RecursionError as error:
            raise ValueError(f"data: expected JSON, got a nesting too deep to read: {error}") from error


def _check_retry(value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_RETRY:
        raise InvalidEvent(f"retry: expected whole milliseconds, 0 to {_MAX_RETRY}, got {value!r:.80}")


def _check_text(name: str, value: object, forbidden: str = "") -> None:
    if not isinstance(value, str):
        hint = _JSON_HINT if isinstance(value, (dict, list)) else ""
        raise InvalidEvent(f"{name}: expected a str, got {type(value).__name__}: {value!r:.80}{hint}")
    for character in forbidden:
        if character in value:
            raise InvalidEvent(f"{name}: expected no {character!r} in it, got {value!r:.80}")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidEvent(f"{name}: expected text that UTF-8 can carry, got {error}") from None


def encode(event: Event) -> bytes:
    """Return the event as it goes on the wire, closed by its blank line."""
    lines = []
    if event.event != "message":
        lines.append("event: " + event.event)  # "+" and no f-string: a str enum formats as its name
    if event.id is not None:
        lines.append("id: " + event.id)
    if event.retry is not None:
        lines.append(f"retry: {event.retry:d}")
    lines.append("data: " + "\ndata: ".join(_lines(event.data)))
    lines.append("\n")
    return "\n".join(lines).encode()


def encode_comment(text: str, *, block: bool = True) -> bytes:
    """Return a comment, which no client shows: one comment line for each line of the text.

    Args:
        text: what it says.
        block: close it with a blank line. Decoders that cut the stream at blank lines need it, or they lose
            the event that follows; openai-python fails on it once it has seen an id, so streams with ids
            send the bare line.
    """
    _check_text("comment", text)
    lines = ": " + "\n: ".join(_lines(text))
    return (lines + ("\n\n" if block else "\n")).encode()


def _lines(text: str) -> list[str]:
    """Cut at CR, LF and CRLF, and at nothing else: `str.splitlines()` knows seven more."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


# What json.dumps leaves as it is and a reader that cuts lines by str.splitlines() would cut at, and
# half a surrogate pair, which UTF-8 cannot carry. (\v, \f and \x1c-\x1e are escaped by JSON itself.)
_UNSAFE_IN_JSON = re.compile("[\x85\u2028\u2029\ud800-\udfff]")

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_json(value: Any) -> str:
    """Return compact JSON that stays one line in every reader.

    Raises:
        InvalidEvent: JSON cannot say it (a set, a NaN, an object of yours, a list that holds itself).
    """
    try:
        text = _JSON.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(f"expected a value that JSON can carry: {error}") from error
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


class Decoder:
    """Bytes in, events out.

    Args:
        mode: what a last event without its blank line is worth when the stream ends. `"strict"`: nothing, as
            the standard says. `"llm"`: it counts if it is whole, for some model servers end with a single
            newline or with none: its data is JSON that cannot be a part of longer JSON, or a terminal mark.
        max_event_bytes: the limit for one event (all its lines), and so for the memory held.
        on_comment: called with the text of each comment (they are how servers say that they live).
        on_ignored_line: called with each line whose field name the standard does not know, such as a line of
            an HTML page: it is no event, and it may be the only trace of what went wrong.

    Both are called while `feed` works, so before the events of the same bytes are returned.

    Attributes:
        last_event_id: what a client sends as `Last-Event-ID`; `""` when there is none. Survives `close()`.
        retry: the reconnection time in milliseconds, when the server named one. Survives `close()`.
        truncated: after `close()`: the stream ended, or was given up, inside an event, which was dropped.
    """

    def __init__(
        self,
        mode: str = "strict",
        max_event_bytes: int = MAX_EVENT_BYTES,
        on_comment: Callable[[str], None] | None = None,
        on_ignored_line: Callable[[str], None] | None = None,
    ) -> None:
        if mode not in ("strict", "llm"):
            raise ValueError(f'mode: expected "strict" or "llm", got {mode!r}')
        if max_event_bytes < 1:
            raise ValueError(f"max_event_bytes: expected 1 or more, got {max_event_bytes!r}")
        self._llm = mode == "llm"
        self._max = max_event_bytes
        self._on_comment = on_comment
        self._on_ignored_line = on_ignored_line
        self.last_event_id = ""
        self.retry: int | None = None
        self.truncated = False
        self._start()

    def _start(self) -> None:
        """Begin a connection: nothing of the one before it may leak into it."""
        self._head: bytes | None = b""  # the first bytes, until it is known whether they are a BOM
        self._line = bytearray()  # the line that has no end yet
        self._after_cr = False  # the last line ended with CR: an LF that follows belongs to it
        self._failure: Exception | None = None  # what ended this connection early
        self._failure_is_known = False  # it was raised
        self._id_buffer = self.last_event_id  # kept as browsers keep it; the standard's text would forget it
        self._clear_block()

    def _clear_block(self) -> None:
        self._held = 0  # bytes taken of an event that is not whole yet; 0: between two events
        self._data: bytes | bytearray | None = None  # the lines of data with an LF between them
        self._name = "message"
        self._id: str | None = None
        self._retry_of_block: int | None = None

    @property
    def is_inside(self) -> bool:
        """Whether something is held of an event, or of a line, that is not whole, or of a line end."""
        return bool(self._held or self._line or self._after_cr or self._head is not None or self._failure)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Take what the network gave and return the events that are whole now, none held back.

        A failure ends the connection: `feed` raises it again until `close()`. The events before it are never
        lost: they are returned first, and the next call raises. An exception of a callback is such a failure.

        Args:
            data: any number of bytes, cut anywhere. What is kept of them is copied: the buffer may be used again.

        Raises:
            EventTooLarge: one event outgrew the limit. Where depends on the bytes alone, not on their cuts.
            TypeError: `data` is not bytes. Nothing was taken.
        """
        if self._failure:
            self._failure_is_known = True
            raise self._failure
        if not isinstance(data, bytes):
            data = memoryview(data).tobytes()
        if self._head is not None:
            data = self._skip_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        events: list[Event] = []
        try:
            self._take(data, events)
        except Exception as error:
            self._fail(error)
            if not events:
                self._failure_is_known = True
                raise
        return events

    def _fail(self, error: Exception) -> None:
        """Give the connection up: hold nothing of it but the error."""
        self._failure = error
        self._line.clear()
        self._clear_block()

    def _skip_bom(self, data: bytes) -> bytes:
        head = (self._head or b"") + data
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head[len(_BOM) :] if head.startswith(_BOM) else head

    def _take(self, data: bytes, events: list[Event]) -> None:
        if not data:
            return
        self._after_cr = data.endswith(b"\r")
        lines = data.splitlines()  # of bytes: at CR, LF and CRLF, and at nothing else
        unfinished = b"" if data.endswith((b"\n", b"\r")) else lines.pop()
        if self._line and lines:
            self._line += lines[0]
            lines[0] = bytes(self._line)
            self._line.clear()
        for line in lines:
            if line:
                self._take_line(line)
            else:
                self._dispatch(events)
        if unfinished:
            self._line += unfinished
            self._check_size(len(self._line))

    def _check_size(self, line_bytes: int) -> None:
        size = self._held + line_bytes
        if size > self._max:
            raise EventTooLarge(f"expected an event of at most {self._max} bytes, got {size} before its end")

    def _take_line(self, line: bytes) -> None:
        self._check_size(len(line))
        if line.startswith(b"data: "):  # nine lines in ten: a short way to what the table says
            self._take_data(line[6:])
            return
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        take = _FIELDS.get(name)
        if take:
            take(self, value)
        elif self._on_ignored_line:
            self._on_ignored_line(_text(line))

    def _take_comment(self, text: bytes) -> None:
        if self._on_comment:
            self._on_comment(_text(text))

    def _take_data(self, value: bytes) -> None:
        self._held += len(value) + 1
        if self._data is None:
            self._data = value  # nine events in ten have one line of data, which is not copied again
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        self._data += b"\n"
        self._data += value

    def _take_event(self, value: bytes) -> None:
        self._held += len(value) + 1
        self._name = _text(value) or "message"

    def _take_id(self, value: bytes) -> None:
        if b"\0" in value:
            return
        self._held += len(value) + 1
        self._id = self._id_buffer = _text(value)

    def _take_retry(self, value: bytes) -> None:
        if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self._retry_of_block = self.retry = int(value)

    def _dispatch(self, events: list[Event]) -> None:
        self.last_event_id = self._id_buffer
        if self._data is not None:
            events.append(self._event(self._data))
        self._clear_block()

    def _event(self, data: bytes | bytearray) -> Event:
        event = Event.__new__(Event)  # what came off the wire is valid: not checked again
        event.__dict__.update(
            data=_text(data),
            event=self._name,
            id=self._id,
            retry=self._retry_of_block,
            last_event_id=self._id_buffer,
        )
        return event

    def close(self) -> list[Event]:
        """End this connection: return the last event if the mode lets it count, and set `truncated`.

        The decoder is then ready for the next connection, with `last_event_id` and `retry` kept.

        Raises:
            EventTooLarge: a failure that `feed` has not raised yet, because events came first.
        """
        failure = None if self._failure_is_known else self._failure
        tail = (self._head or b"") + bytes(self._line)
        self.truncated = bool(self._failure or self._held or (tail and not tail.startswith(b":")))
        events: list[Event] = []
        if self._llm and self.truncated:
            events = self._last_event(tail)
            self.truncated = not events
        self._start()
        if failure:
            raise failure
        return events

    def _last_event(self, tail: bytes) -> list[Event]:
        """Return the event that never got its blank line, if it is whole all the same."""
        if tail.startswith(b"data:"):
            self._take_line(tail)
        # Any other unfinished line is dropped: half an id is a wrong id.
        if self._data is None:
            return []
        event = self._event(self._data)
        if not _is_whole(event):
            return []
        self.last_event_id = self._id_buffer
        return [event]


_FIELDS = {
    b"": Decoder._take_comment,  # a line that begins with the colon
    b"data": Decoder._take_data,
    b"event": Decoder._take_event,
    b"id": Decoder._take_id,
    b"retry": Decoder._take_retry,
}


def _text(raw: bytes | bytearray) -> str:
    return raw.decode("utf-8", "replace")


def _is_whole(event: Event) -> bool:
    """Tell whether no more bytes could have belonged to this data: a number may be a part of a longer one."""
    if event.data in TERMINAL_MARKS:
        return True
    try:
        value = event.json()
    except ValueError:
        return False
    return isinstance(value, bool) or not isinstance(value, (int, float))


_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r")
"""Two line ends of any kind leave one of these pairs; CRLF alone is one line end and leaves none."""


def end_of_blocks(buffer: bytes | bytearray, searched: int = 0) -> int:
    """Return where the last finished block in the buffer ends; 0 if none does.

    For a relay that passes bytes on unchanged, and never half an event.

    Args:
        buffer: bytes that begin at the beginning of a block.
        searched: how many of them were searched before without success; only newer ones are looked at.
    """
    start = max(searched - 1, 0)  # a pair may have one half on each side
    last = max(buffer.rfind(pair, start) for pair in _BLANK_LINES)
    if last < 0:
        return 0
    end = last + 2
    # The LF of a CRLF that closes the block belongs to it; if it is not here yet, it may follow alone.
    return end + 1 if buffer[end - 1 : end + 1] == b"\r\n" else end
