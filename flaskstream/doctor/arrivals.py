"""What came, and when, in seconds of `time.monotonic()`: values."""

from __future__ import annotations

from dataclasses import dataclass

from flaskstream.sse import Event


@dataclass(frozen=True)
class Read:
    """What one `recv` returned, and when: bytes of the connection, framing and coding included."""

    at: float
    data: bytes


@dataclass(frozen=True)
class Chunk:
    """Bytes of the content, decoded, and when the last of them came."""

    at: float
    data: bytes


@dataclass(frozen=True)
class Timed:
    """An event, and when it was whole."""

    at: float
    event: Event


@dataclass(frozen=True)
class TimedComment:
    """A comment of the event stream, and when it was whole."""

    at: float
    text: str
