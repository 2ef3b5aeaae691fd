"""What a stream looks like on the wire: one small class for each form, all without input or output."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Callable, Collection, Iterator, Protocol, Tuple

from flaskstream.dialects import Dialect
from flaskstream.errors import FlaskStreamError, InvalidEvent, ShuttingDown
from flaskstream.sse import Event, encode, encode_comment, to_json

HEARTBEAT_FORMS = ("comment", "block", "line", "ping")
"""How a heartbeat is written. "block" is a comment and a blank line, "line" the comment's line alone, "ping" an event
of that name, which also a native `EventSource` sees. "comment" is that of the first two which no known reader dislikes:
openai-python dies of a block once it has seen an id, and readers that split at blank lines lose the event after a
line."""


class Wire(Protocol):
    """How the items of a stream, its beginning, its pauses and its ends are written."""

    cuts: bool
    """A failed stream is cut: its connection is closed without a proper end, for clients that know no error event."""

    counted: bool
    """It stands in the figures of all workers; a probe's ticks do not, which would falsify those of the answers."""

    single: Collection[type]
    """The types of items that are one token each: nobody has to ask `tokens`."""

    @property
    def restart(self) -> bytes:
        """What asks its client to come back when the process stops; empty: its stream cannot be resumed elsewhere."""
        ...

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        """Yield what `frame` takes, `None` for an empty item. Runs where the source runs: a bad one is its error."""
        ...

    def frame(self, item: Any) -> bytes:
        """Return one item's bytes."""
        ...

    def tokens(self, item: Any) -> int:
        """Return how many tokens are in an item."""
        ...

    def opening(self) -> bytes:
        """Return what takes the headers along when there is no item yet."""
        ...

    def heartbeat(self) -> bytes:
        """Return what means nothing to the client and keeps the connection alive."""
        ...

    def done(self, stream_id: str) -> bytes:
        """Return what ends a whole answer; may be empty."""
        ...

    def failed(self, error: Exception, stream_id: str) -> bytes:
        """Return what ends a failed answer."""
        ...


class Comments:
    """Comments, and heartbeats in the form that was asked for."""

    def __init__(self, heartbeat_form: str, ping: bytes) -> None:
        self._form = heartbeat_form
        self._ping = ping

    def heartbeat(self, has_ids: bool) -> bytes:
        return self._ping if self._form == "ping" and self._ping else self.of("hb", has_ids)

    def of(self, text: str, has_ids: bool) -> bytes:
        is_block = self._form == "block" or (self._form != "line" and not has_ids)
        return encode_comment(text, block=is_block)


_TOKEN = b'data: {"t":"%b"}\n\n'
_TO_THE_NEXT = b'"}\n\ndata: {"t":"'

event_of_text: Callable[[bytes], bytes] = _TOKEN.__mod__
"""Returns the event with this text, which is as that of a `PlainToken`, as it goes on the wire."""


class PlainToken(bytes):
    """A token's text, as JSON writes it and any other JSON may hold it: in an event of ours it stands as it is."""

    __slots__ = ()  # else each would have a dictionary, and be looked at by the collector of garbage

    def encoded(self) -> bytes:
        """Return that event, as it goes on the wire."""
        return _TOKEN % self


class PlainTokens(Tuple[PlainToken, ...]):
    """Such tokens that came together, and are written together."""

    def encoded(self) -> bytes:
        """Return their events, as they go on the wire."""
        return _TOKEN % _TO_THE_NEXT.join(self)


class EventWire:
    """Events of ours: named ends, and errors that any client can read.

    Args:
        retry: the reconnection time that the first event carries, in milliseconds; `None`: none.
        restart_retry: the one that goes with the end of a stream at a deploy.
        heartbeat_form: one of `HEARTBEAT_FORMS`.
    """

    __slots__ = ("_comments", "_count", "_has_ids", "_restart_retry", "_retry")

    cuts = False
    counted = True
    single: Collection[type] = frozenset([PlainToken])

    def __init__(
        self, retry: int | None = None, restart_retry: int | None = None, heartbeat_form: str = "comment"
    ) -> None:
        self._retry = retry
        self._restart_retry = restart_retry
        self._comments = Comments(heartbeat_form, ping=encode(Event("{}", "ping")))
        self._count = 0
        self._has_ids = False

    @property
    def restart(self) -> bytes:
        return b""

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        return map(as_events, source)

    def frame(self, item: Event | PlainToken | PlainTokens) -> bytes:
        if type(item) is PlainToken and self._retry is None:
            self._count += 1
            return _TOKEN % item
        if isinstance(item, PlainTokens):
            self._count += len(item)
            return item.encoded()
        self._count += 1
        if isinstance(item, PlainToken):
            return self._block(Event(item.encoded()[6:-2].decode()))
        self._has_ids = self._has_ids or item.id is not None
        return self._block(item)

    def tokens(self, item: Event | PlainToken | PlainTokens) -> int:
        return len(item) if isinstance(item, PlainTokens) else 1

    def _block(self, event: Event) -> bytes:
        """Return an event's bytes, with the reconnection time in the first one's: alone it upsets some readers."""
        retry, self._retry = self._retry, None
        if retry is not None and event.retry is None:
            event = replace(event, retry=retry)
        return encode(event)

    def opening(self) -> bytes:
        return self._comments.of("open", self._has_ids)

    def heartbeat(self) -> bytes:
        return self._comments.heartbeat(self._has_ids)

    def done(self, stream_id: str) -> bytes:
        """End the answer with the only id of ours: a client that comes back with it needs no second answer."""
        return self._block(Event(to_json({"events": self._count}), "done", id=done_id(stream_id)))

    def failed(self, error: Exception, stream_id: str) -> bytes:
        retry = self._restart_retry if isinstance(error, ShuttingDown) else None
        return self._block(Event(to_json(describe(error, stream_id)), "error", retry=retry))


class Block(bytes):
    """Whole events of an upstream, as it wrote them.

    Attributes:
        tokens: how many tokens are in them.
        is_answer: something of the answer is; else they are comments and pings.
    """

    tokens: int = 1
    is_answer: bool = True

    def __new__(cls, data: bytes | bytearray, tokens: int = 0, is_answer: bool = True) -> Block:
        block = super().__new__(cls, data)
        block.tokens = tokens
        block.is_answer = is_answer
        return block


class TokenBlock(Block):
    """An event with one token in it."""

    __new__ = bytes.__new__  # type: ignore[assignment] # no function of ours is called for most tokens


_ID_LINE = re.compile(rb"(?:^|[\r\n])id:")


class FaithfulWire:
    """The upstream's own bytes and errors; a failed stream is cut too, for its clients know no event of ours.

    Args:
        dialect: whose errors and pings its clients understand.
        heartbeat_form: one of `HEARTBEAT_FORMS`; "ping" is a comment where the API has no ping of its own.
    """

    __slots__ = ("_comments", "_dialect", "_has_ids")

    cuts = True
    counted = True
    single: Collection[type] = frozenset([TokenBlock])
    restart = b""

    def __init__(self, dialect: Dialect, heartbeat_form: str = "comment") -> None:
        self._dialect = dialect
        self._comments = Comments(heartbeat_form, ping=dialect.ping)
        self._has_ids = False

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        return (item or None for item in source)

    def frame(self, item: bytes) -> bytes:
        self._has_ids = self._has_ids or (b"id:" in item and _ID_LINE.search(item) is not None)
        return item

    def tokens(self, item: Any) -> int:
        return item.tokens if isinstance(item, Block) else 0

    def opening(self) -> bytes:
        return self._comments.of("open", self._has_ids)

    def heartbeat(self) -> bytes:
        return self._comments.heartbeat(self._has_ids)

    def done(self, stream_id: str) -> bytes:
        return b""  # the upstream's own mark has gone through

    def failed(self, error: Exception, stream_id: str) -> bytes:
        known = describe(error, stream_id)
        return self._dialect.error_event(known["code"], f"{known['message']} ({stream_id})")


class Together(Tuple[Any, ...]):
    """Items that came together: they leave in one write."""


def as_events(item: Any) -> Event | PlainToken | Together | None:
    """Do as `as_event` does; with a batch, for each of its items."""
    if isinstance(item, PlainToken):
        return item
    return Together(map(as_event, item)) if isinstance(item, Together) else as_event(item)


def encoded(item: Any) -> list[bytes]:
    """Return the events that an item of a source stands for, as they go on the wire; errors as of `as_event`."""
    if type(item) is PlainToken:
        return [_TOKEN % item]
    if isinstance(item, (Together, PlainTokens)):
        return [block for one in item for block in encoded(one)]
    event = as_event(item)
    return [] if event is None else [encode(event)]


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
