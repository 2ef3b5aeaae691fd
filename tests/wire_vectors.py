"""Everything that the kit puts on the wire, as a table of streams that our own writers made.

All items go through a `Wire`, as those of a real stream do. Each stream is there because some reader could well stumble
over it.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from answer_vectors import ODD, STOP, USAGE, said
from dialect_vectors import BLOCK_START, ENDED, MESSAGE_START, PING, words

from flaskstream.dialects import ANTHROPIC, OPENAI
from flaskstream.errors import MaxDuration, ShuttingDown, UpstreamTruncated
from flaskstream.sse import Event
from flaskstream.wire import EventWire, FaithfulWire

STREAM_ID = "0123456789abcdef"


class Mark(Enum):
    """What a stream writes besides its items."""

    OPEN = "the first comment, while there is no event yet"
    HEARTBEAT = "the heartbeat after a silence"
    DONE = "the end of a whole answer"


OPEN, HEARTBEAT, DONE = Mark


def written(wire: Any, *parts: Any) -> bytes:
    """Return what a wire makes of items, marks and the error that ends the stream."""
    return b"".join(_write(wire, part) for part in parts)


def _write(wire: Any, part: Any) -> bytes:
    if part is OPEN:
        return wire.opening()
    if part is HEARTBEAT:
        return wire.heartbeat()
    if part is DONE:
        return wire.done(STREAM_ID)
    if isinstance(part, Exception):
        return wire.failed(part, STREAM_ID)
    return b"".join(map(wire.frame, wire.items(iter([part]))))


def ours(*parts: Any, form: str = "comment") -> bytes:
    return written(EventWire(3000, restart_retry=100, heartbeat_form=form), *parts)


def faithful(*parts: Any, dialect: Any = OPENAI, form: str = "comment") -> bytes:
    return written(FaithfulWire(dialect, heartbeat_form=form), *parts)


def with_crlf(stream: bytes) -> bytes:
    return stream.replace(b"\n", b"\r\n")


def with_ids(stream: bytes) -> bytes:
    """Return it as some gateways send it: every event has an id."""
    return stream.replace(b"data: {", b"id: 7\ndata: {")


WORDS = [{"t": "Each"}, {"t": " word"}, {"t": "\n\n"}, {"t": " leaves "}]
DONE_OF_OPENAI = b"data: [DONE]\n\n"
PROCESSING = b": OPENROUTER PROCESSING\n\n"
AB = (said("a"), HEARTBEAT, said("b"), said(" 東京 🌍"))
MEGABYTE = "x東🌍 " * (1 << 17)

FORMATS = {
    "a whole answer": ours(*WORDS, DONE),
    "an answer without a word": ours(DONE),
    "a failure": ours(*WORDS, UpstreamTruncated("-")),
    "a failure before the first word": ours(OPEN, HEARTBEAT, MaxDuration("-")),
    "a deploy": ours(*WORDS, ShuttingDown("-")),
    "text as it is": ours("Each", " word", "leaves", DONE),
    "names": ours(Event("1", "tick"), Event("2", "token.delta"), Event("3", "ping"), Event("4", "名"), DONE),
    "a retry of its own": ours(Event("1", retry=5), Event("2", retry=0), DONE),
    "ids": ours(*(Event(f"{n}", id=f"epoch-{n}") for n in range(3)), DONE),
    "ids and names": ours(*(Event(f"{n}", "tick", f"epoch-{n}") for n in range(3)), DONE),
    "an id that is a text": ours(Event("1", id="名: 🌍 x"), DONE),
}

HEARTBEATS = {
    "a first comment": ours(OPEN, *WORDS, DONE),
    "heartbeats": ours(OPEN, HEARTBEAT, HEARTBEAT, WORDS[0], HEARTBEAT, *WORDS, HEARTBEAT, HEARTBEAT, DONE),
    "heartbeats among ids": ours(
        OPEN, Event("1", id="e-1"), HEARTBEAT, Event("2", id="e-2"), HEARTBEAT, HEARTBEAT, DONE
    ),
    "ids that begin late": ours("0", HEARTBEAT, Event("1", id="e-1"), HEARTBEAT, "2", HEARTBEAT, DONE),
    "heartbeats as lines": ours(OPEN, HEARTBEAT, "1", HEARTBEAT, HEARTBEAT, "2", HEARTBEAT, DONE, form="line"),
    "heartbeats as lines among names": ours(HEARTBEAT, Event("1", "a"), HEARTBEAT, Event("2", "b"), DONE, form="line"),
    "heartbeats as pings": ours(OPEN, HEARTBEAT, "1", HEARTBEAT, Event("2", id="e-2"), HEARTBEAT, DONE, form="ping"),
    "heartbeats as blocks among ids": ours(Event("1", id="e-1"), HEARTBEAT, Event("2", id="e-2"), DONE, form="block"),
}

TEXTS = {
    "lines": ours("two\nlines", "a\rb\r\nc", "an end\n", "a gap\n\nin it", Event("1\n2", "named", "e-1"), DONE),
    "lines that begin empty": ours("\nbegins", "\n\nbegins", "\n", Event("\n1", "named"), DONE),
    "spaces": ours("  two", " ", "   ", "\ttab", "end  ", " \n  \n", DONE),
    "signs": ours(": no comment", "data: x", "id: 9", "retry", ":", "a: b: c", "[DONE]", '{"a":1}', DONE),
    "odd characters": ours(f"a {ODD} b", "c\x0bd", "e\x0cf", "g\x1ch\x1di\x1ej", DONE),
    "odd characters in JSON": ours({"t": f"{ODD}\x0b\x0c\x1c\x1d\x1e\0\r\n"}, {f"{ODD}": [None, True, 1.5]}, DONE),
    "a mark of byte order": ours("\ufeffa", "b\ufeff", DONE),
    "scripts": ours(
        "東京は夜の七時", {"t": "東京は夜の七時"}, "Zürich e\u0301 \U0001f469\u200d\U0001f469\u200d\U0001f467 🌍", DONE
    ),
    "a megabyte": ours({"t": MEGABYTE}, MEGABYTE, DONE),
}

APIS = {
    "OpenAI": faithful(OPEN, *AB, HEARTBEAT, STOP, USAGE, DONE_OF_OPENAI, DONE),
    "OpenAI with comments": faithful(PROCESSING, PROCESSING, HEARTBEAT, *AB, DONE_OF_OPENAI, DONE),
    "OpenAI with ids": faithful(
        OPEN, *map(with_ids, (said("a"), said("b"))), HEARTBEAT, with_ids(STOP), HEARTBEAT, DONE
    ),
    "OpenAI with CRLF": faithful(
        OPEN, with_crlf(said("a")), HEARTBEAT, with_crlf(STOP), with_crlf(DONE_OF_OPENAI), DONE
    ),
    "OpenAI, failed": faithful(OPEN, *AB, UpstreamTruncated("-")),
    "Anthropic": faithful(
        OPEN, MESSAGE_START, BLOCK_START, PING, words("a"), HEARTBEAT, words("b"), ENDED, DONE, dialect=ANTHROPIC
    ),
    "Anthropic with heartbeats as pings": faithful(
        OPEN, HEARTBEAT, MESSAGE_START, HEARTBEAT, words("a"), HEARTBEAT, ENDED, DONE, dialect=ANTHROPIC, form="ping"
    ),
    "Anthropic, failed": faithful(OPEN, MESSAGE_START, words("a"), UpstreamTruncated("-"), dialect=ANTHROPIC),
}

STREAMS = {**FORMATS, **HEARTBEATS, **TEXTS, **APIS}
