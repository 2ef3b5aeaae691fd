"""A stream, line by line as it comes: when, how long after the one before, and what."""

from __future__ import annotations

from typing import Iterator

from flaskstream.doctor.exit_codes import EXIT_CANNOT_TELL, EXIT_CUT, EXIT_STREAMS
from flaskstream.doctor.measure import Exchange, Request, open_exchange
from flaskstream.show.terminal import terminal_for

LONG_GAP_SECONDS = 1.0
"""A gap from which on it is painted."""

_SHOWN_HEADERS = ("content-type", "content-encoding", "transfer-encoding", "content-length", "server", "via")


class Tail:
    """Reads one stream.

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
        self._comments = 0  # that were shown
        self._events = 0
        self._gaps: list[float] = []
        self._last_at: float | None = None

    def lines(self) -> Iterator[str]:
        """Yield each line when it is known. Leaves when it is closed."""
        with open_exchange(self._request) as exchange:
            self._exchange = exchange
            yield from self._head(exchange)
            if (exchange.header("Content-Type") or "").startswith("text/event-stream"):
                yield from self._event_lines(exchange)
            else:
                for chunk in exchange.chunks():
                    self._events += 1
                    yield self._line(chunk.at, chunk.data.decode("utf-8", "replace").rstrip("\n"))

    def _head(self, exchange: Exchange) -> Iterator[str]:
        if exchange.status is None:
            return
        yield self._terminal.paint("title", f"HTTP/{exchange.http_version} {exchange.status} {exchange.reason}")
        for name, value in exchange.headers:
            if name.lower() in _SHOWN_HEADERS:
                yield self._terminal.paint("quiet", f"{name}: {value}")
        yield ""

    def _event_lines(self, exchange: Exchange) -> Iterator[str]:
        for timed in exchange.events():
            yield from self._comment_lines(exchange)
            event = timed.event
            self._events += 1
            name = "" if event.event == "message" else f"[{event.event}] "
            number = "" if event.id is None else f"#{event.id} "
            yield self._line(timed.at, f"{number}{name}{event.data}", "bad" if event.event == "error" else "plain")
        yield from self._comment_lines(exchange)

    def _comment_lines(self, exchange: Exchange) -> Iterator[str]:
        for comment in exchange.comments[self._comments :]:
            self._comments += 1
            yield self._line(comment.at, f": {comment.text}", "quiet")

    def _line(self, at: float, text: str, style: str = "plain") -> str:
        assert self._exchange is not None
        gap = at - (self._last_at if self._last_at is not None else self._exchange.sent_at)
        if self._last_at is not None:
            self._gaps.append(gap)
        self._last_at = at
        stamp = f"{at - self._exchange.sent_at:9.3f} s"
        waited = self._terminal.paint("doubt" if gap >= LONG_GAP_SECONDS else "quiet", f"{_gap(gap):>9}")
        text = text.replace("\n", "\\n").replace("\r", "\\r")
        room = self._width - 24
        if self._width and len(text) > room:
            text = text[: room - 3] + "..."
        return f"{stamp}  {waited}  {self._terminal.paint(style, text)}"

    def summary(self) -> str:
        """Return what has been seen, in one line or two."""
        exchange = self._exchange
        if exchange is None or exchange.status is None:
            return self._terminal.paint("bad", (exchange.error if exchange else "") or "no answer came")
        counted = f"{self._events} events, {self._comments} comments"
        largest = f", largest gap {_gap(max(self._gaps)).lstrip('+')}" if self._gaps else ""
        first = f", first byte after {_gap((exchange.first_byte_at or 0) - exchange.sent_at).lstrip('+')}"
        told = f"{counted}{first if exchange.first_byte_at else ''}{largest}"
        ended = exchange.error or {"left": "left"}.get(exchange.ended or "", "whole")
        style = "good" if self.exit_code == EXIT_STREAMS else "bad"
        return f"\n{told}\n{self._terminal.paint(style, f'ended: {ended}')}"

    @property
    def exit_code(self) -> int:
        exchange = self._exchange
        if exchange is None or exchange.status is None or exchange.status >= 300:
            return EXIT_CANNOT_TELL
        whole = exchange.framing_complete and not exchange.cut_inside_event
        return EXIT_STREAMS if whole and not exchange.error else EXIT_CUT


def _gap(seconds: float) -> str:
    return f"+{seconds * 1000:.0f} ms" if seconds < 1 else f"+{seconds:.2f} s"
