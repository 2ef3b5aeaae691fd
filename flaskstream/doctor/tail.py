"""A stream, line by line as it comes: when, how long after the one before, and what."""

from __future__ import annotations

import codecs
from typing import Iterator

from flaskstream.doctor.exit_codes import EXIT_CANNOT_TELL, EXIT_CUT, EXIT_STREAMS
from flaskstream.doctor.measure import Chunk, Exchange, Request, open_exchange
from flaskstream.errors import EventTooLarge
from flaskstream.show.terminal import UNICODE, harmless, terminal_for
from flaskstream.sse import Decoder, Event

LONG_GAP_SECONDS = 1.0
"""A gap from which on it is painted."""

_SHOWN_HEADERS = (
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "content-length",
    "location",
    "server",
    "via",
)
_FORGOTTEN = Chunk(0.0, b"")


class Tail:
    """Reads one stream, and keeps nothing of it.

    Args:
        request: what to ask.
        color, unicode: see `terminal_for`.
        width: columns to which a line is cut; 0: it is shown whole.
    """

    def __init__(self, request: Request, *, color: bool, width: int, unicode: bool) -> None:
        self._request = request
        self._width = width
        self._terminal = terminal_for(color, width, unicode)
        self._exchange: Exchange | None = None
        self._comments = 0
        self._events = 0
        self._largest_gap: float | None = None
        self._last_at: float | None = None
        self._fault = ""  # of the events, where the exchange itself has none

    def lines(self) -> Iterator[str]:
        """Yield each line when it is known. Leaves when it is closed."""
        with open_exchange(self._request) as exchange:
            self._exchange = exchange
            yield from self._head(exchange)
            media_type = (exchange.header("Content-Type") or "").partition(";")[0].strip().lower()
            yield from (self._event_lines if media_type == "text/event-stream" else self._text_lines)(exchange)

    def _head(self, exchange: Exchange) -> Iterator[str]:
        if exchange.status is None:
            return
        status_line = f"HTTP/{exchange.http_version} {exchange.status} {exchange.reason}"
        yield self._terminal.paint("title", self._shown(status_line.rstrip()))  # HTTP/2 has no reasons
        for name, value in exchange.headers:
            if name.lower() in _SHOWN_HEADERS:
                yield self._terminal.paint("quiet", self._shown(f"{name}: {value}"))
        yield ""

    def _event_lines(self, exchange: Exchange) -> Iterator[str]:
        comments: list[str] = []
        decoder = Decoder(on_comment=comments.append)
        try:
            for chunk in _chunks(exchange):
                events = decoder.feed(chunk.data)
                self._comments += len(comments)
                for comment in comments:
                    yield self._line(chunk.at, f": {comment}", "quiet")
                comments.clear()
                for event in events:
                    yield self._event_line(chunk.at, event)
            decoder.close()
            self._fault = "cut inside an event" if decoder.truncated else ""
        except EventTooLarge as error:
            self._fault = str(error)

    def _event_line(self, at: float, event: Event) -> str:
        self._events += 1
        name = "" if event.event == "message" else f"[{event.event}] "
        number = "" if event.id is None else f"#{event.id} "
        return self._line(at, f"{number}{name}{event.data}", "bad" if event.event == "error" else "plain")

    def _text_lines(self, exchange: Exchange) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")  # the network may cut inside of a character
        for chunk in _chunks(exchange):
            self._events += 1
            text = decoder.decode(chunk.data)
            if text:
                yield self._line(chunk.at, text.rstrip("\n"))
        rest = decoder.decode(b"", True)
        if rest:
            yield self._line(exchange.ended_at or 0.0, rest)

    def _line(self, at: float, text: str, style: str = "plain") -> str:
        assert self._exchange is not None
        gap = at - (self._last_at if self._last_at is not None else self._exchange.sent_at)
        if self._last_at is not None:
            self._largest_gap = max(gap, self._largest_gap or 0.0)
        self._last_at = at
        stamp = f"{at - self._exchange.sent_at:9.3f} s"
        waited = self._terminal.paint("doubt" if gap >= LONG_GAP_SECONDS else "quiet", f"{_gap(gap):>9}")
        text = self._shown(text)
        room = self._width - 24
        if self._width and len(text) > room:
            text = text[: room - 3] + "..."
        return f"{stamp}  {waited}  {self._terminal.paint(style, text)}"

    def _shown(self, text: str) -> str:
        """Return what the peer said as text that no terminal obeys, and that this one can show."""
        text = harmless(text)
        return text if self._terminal.glyphs is UNICODE else text.encode("ascii", "backslashreplace").decode()

    def summary(self) -> str:
        """Return what has been seen, in one line or two."""
        exchange = self._exchange
        if exchange is None or exchange.status is None:
            return self._terminal.paint("bad", self._shown((exchange.error if exchange else "") or "no answer came"))
        counted = f"{self._events} events, {self._comments} comments"
        largest = f", largest gap {_gap(self._largest_gap).lstrip('+')}" if self._largest_gap is not None else ""
        first = f", first byte after {_gap((exchange.first_byte_at or 0) - exchange.sent_at).lstrip('+')}"
        told = f"{counted}{first if exchange.first_byte_at else ''}{largest}"
        style = "good" if self.exit_code == EXIT_STREAMS else "bad"
        return f"\n{told}\n{self._terminal.paint(style, self._shown(f'ended: {self._end(exchange)}'))}"

    def _end(self, exchange: Exchange) -> str:
        fault = exchange.error or self._fault
        end = fault or ("left" if exchange.ended in (None, "left") else "whole")
        assert exchange.status is not None
        if exchange.status < 300:
            return end
        location = exchange.header("Location")
        if exchange.status < 400 and location is not None:
            return f"{end}, but a redirect is no stream, and it is not followed: ask {location}"
        return f"{end}, but an answer with status {exchange.status} is no stream"

    @property
    def exit_code(self) -> int:
        exchange = self._exchange
        if exchange is None or exchange.status is None or exchange.status >= 300:
            return EXIT_CANNOT_TELL
        whole = exchange.framing_complete and not exchange.error and not self._fault
        return EXIT_STREAMS if whole else EXIT_CUT


def _chunks(exchange: Exchange) -> Iterator[Chunk]:
    """Iterate over the pieces, and have the exchange hold none: a stream may go on for days."""
    for number, chunk in enumerate(exchange.chunks()):
        exchange.reads.clear()
        exchange.pieces[number] = _FORGOTTEN
        yield chunk


def _gap(seconds: float) -> str:
    return f"+{seconds * 1000:.0f} ms" if seconds < 1 else f"+{seconds:.2f} s"
