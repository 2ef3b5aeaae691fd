"""An exchange that is over, as a value."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from flaskstream.doctor.arrivals import Chunk, Read, Timed, TimedComment
from flaskstream.doctor.exchange import Exchange, open_exchange
from flaskstream.doctor.request import Request
from flaskstream.doctor.wire import Headers, find_header


@dataclass(frozen=True)
class Recording:
    """An exchange that is over. The fields are those of `Exchange`; `chunks` are its pieces."""

    request: Request
    status: int | None
    reason: str
    http_version: str
    headers: Headers
    framing: str
    framing_complete: bool
    coding: str
    coding_note: str
    coding_complete: bool | None
    trailers: Headers
    sent_at: float
    headers_at: float | None
    first_byte_at: float | None
    reads: tuple[Read, ...]
    chunks: tuple[Chunk, ...]
    events: tuple[Timed, ...]
    comments: tuple[TimedComment, ...]
    cut_inside_event: bool
    ended: str
    ended_at: float
    error: str

    @property
    def body(self) -> bytes:
        """The decoded content."""
        return b"".join(chunk.data for chunk in self.chunks)

    def header(self, name: str) -> str | None:
        """Return the value of a response header, several joined by ", "; `None` if there is none."""
        return find_header(self.headers, name)


def record(request: Request, stop_after: int | None = None) -> Recording:
    """Read the answer to its end, or leave after so many events, and return all that was seen.

    Raises nothing of the network's: it is in `ended` and `error`.
    """
    with open_exchange(request) as exchange:
        events = tuple(itertools.islice(exchange.events(), stop_after))
    return _recording(exchange, events)


def _recording(exchange: Exchange, events: tuple[Timed, ...]) -> Recording:
    assert exchange.ended is not None and exchange.ended_at is not None
    return Recording(
        request=exchange.request,
        status=exchange.status,
        reason=exchange.reason,
        http_version=exchange.http_version,
        headers=exchange.headers,
        framing=exchange.framing,
        framing_complete=exchange.framing_complete,
        coding=exchange.coding,
        coding_note=exchange.coding_note,
        coding_complete=exchange.coding_complete,
        trailers=exchange.trailers,
        sent_at=exchange.sent_at,
        headers_at=exchange.headers_at,
        first_byte_at=exchange.first_byte_at,
        reads=tuple(exchange.reads),
        chunks=tuple(exchange.pieces),
        events=events,
        comments=tuple(exchange.comments),
        cut_inside_event=exchange.cut_inside_event,
        ended=exchange.ended,
        ended_at=exchange.ended_at,
        error=exchange.error,
    )
