"""A client that has no opinion: what came, when it came, and how it ended.

One `recv` is one read: it is stamped the moment it returns and handed on at once; nothing here ever waits
for more than is there. What the network or the peer does wrong is a finding, not an exception: it stands in
`ended` and `error`. Only a request that cannot be written raises.

All times are seconds of `time.monotonic()`.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import socket
import ssl
import struct
import time
from dataclasses import dataclass
from typing import Iterator
from urllib.parse import urlsplit

from flaskstream.doctor.coding import ContentDecoder, content_decoder
from flaskstream.doctor.request import PORTS, Request
from flaskstream.doctor.wire import Body, End, Head, Headers, MalformedResponse, Part, ResponseParser, find_header
from flaskstream.errors import EventTooLarge
from flaskstream.sse import Decoder, Event

__all__ = ["Chunk", "Exchange", "Read", "Recording", "Request", "Timed", "TimedComment", "open_exchange", "record"]

READ_BYTES = 64 * 1024
"""The most that one read takes: a loopback segment, so that a burst is one read."""


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


class Exchange:
    """A request that went out and the answer as it comes. `open_exchange` makes it.

    Attributes:
        status, reason, http_version, headers: of the final head; `None`, "", "" and () until it is there.
        framing: "chunked", "length" or "close" (RFC 9112 6.3); "" without a head.
        coding: the Content-Encoding, "identity" for none.
        coding_note: what to know about the decoding, such as that a coding was left undecoded.
        trailers: headers after the final chunk.
        connect_seconds: how long the TCP connection took: one round trip.
        address: "ADDRESS:PORT" of this client, as the peer sees it if nothing is between; "" without a connection.
        sent_at: when the last byte of the request had been given to the kernel; when it was tried, if it never was.
        headers_at: when the final head was whole; `None` before.
        first_byte_at: when the first byte of the body came, still coded; `None` before.
        reads: every read so far.
        pieces: every decoded piece of the content so far.
        comments: comments so far, of those who read `events()`.
        ended: `None` while it goes on; "final_chunk" and "length": whole; "close": the peer closed, which is
            whole only where the framing is "close"; "reset" by the peer; "timeout": silence, or no connection in
            time; "refused": no connection (no listener, no such name, TLS failed); "malformed": bytes that are
            no HTTP; "left": this client went, by its own choice or at its limits.
        ended_at: when; `None` before.
        error: what was expected and what came, where that differs. Empty for an end that is whole and for
            a client that left by choice.
        framing_complete: the framing says that nothing is missing (a body framed by "close" cannot say more).
        cut_inside_event: `events()` was read to the end, and an event was not finished.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.status: int | None = None
        self.reason = ""
        self.http_version = ""
        self.headers: Headers = ()
        self.framing = ""
        self.trailers: Headers = ()
        self.headers_at: float | None = None
        self.first_byte_at: float | None = None
        self.reads: list[Read] = []
        self.pieces: list[Chunk] = []
        self.comments: list[TimedComment] = []
        self.ended: str | None = None
        self.ended_at: float | None = None
        self.error = ""
        self.framing_complete = False
        self.cut_inside_event = False
        self.connect_seconds = 0.0
        self.address = ""
        self.sent_at = time.monotonic()
        self._leave_at = None if request.max_seconds is None else self.sent_at + request.max_seconds
        self._socket: socket.socket | None = None
        self._parser = ResponseParser(request.method)
        self._content: ContentDecoder = content_decoder(None)
        self._kept = 0  # bytes held in reads and pieces
        self._handed_on = 0  # pieces that chunks() has given out
        self._decoder = Decoder(on_comment=self._take_comment)
        self._decoding_at = 0.0
        self._events: collections.deque[Timed] = collections.deque()  # whole, and not yet given out

    @property
    def coding(self) -> str:
        return self._content.coding

    @property
    def coding_note(self) -> str:
        return self._content.note

    @property
    def coding_complete(self) -> bool | None:
        """Tell whether the coding's own end was seen; `None` for a coding that is left undecoded."""
        return self._content.complete

    def header(self, name: str) -> str | None:
        """Return the value of a response header, several joined by ", "; `None` if there is none."""
        return find_header(self.headers, name)

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over the decoded pieces of the content as they come; goes on where the last iteration stopped."""
        while True:
            chunk = self._next_chunk()
            if chunk is None:
                return
            yield chunk

    def events(self) -> Iterator[Timed]:
        """Iterate over the events as they are whole; goes on where the last iteration stopped.

        It reads the same content as `chunks()`: use one of the two.
        """
        while True:
            while self._events and not self._went_by_choice():
                yield self._events.popleft()
            chunk = self._next_chunk()
            if chunk is None:
                self._finish_decoding()
                return
            self._decode(chunk)

    def leave(self) -> None:
        """Go, as a client that closes its tab: with FIN. What was not read yet is lost. Twice is once."""
        self._finish("left")

    def reset(self) -> None:
        """Go, as a client that dies: with RST."""
        if self._socket:
            # Linger on, for 0 seconds: close() throws away what is unsent and resets.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._socket.close()
            self._socket = None
        self._finish("left")

    # From the outside in: connection, reads, parts, content, events.

    def _start(self) -> None:
        self._connect()
        if not self.ended:
            self._send(self.request.encode())
        while not self.ended and self.headers_at is None:
            self._read()

    def _connect(self) -> None:
        parts = urlsplit(self.request.url)
        host = parts.hostname or ""
        try:
            self._socket = socket.create_connection((host, parts.port or PORTS[parts.scheme]), timeout=self._patience())
            self.connect_seconds = time.monotonic() - self.sent_at
            self.address = "{}:{}".format(*self._socket.getsockname()[:2])
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a long body must not wait for an ACK
            if parts.scheme == "https":
                context = self.request.tls or ssl.create_default_context()
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except socket.timeout:
            self._finish_waiting("a connection")
        except (OSError, UnicodeError) as error:  # UnicodeError: a host name that DNS cannot carry
            self._finish("refused", f"expected a connection, got {error or type(error).__name__}")

    def _send(self, data: bytes) -> None:
        assert self._socket
        try:
            self._socket.settimeout(self._patience())
            self._socket.sendall(data)
        except socket.timeout:
            self._finish_waiting("to be rid of the request")
        except OSError as error:
            self._finish("reset", f"expected to be rid of the request, got {error}")
        self.sent_at = time.monotonic()

    def _patience(self) -> float:
        """Return how many seconds to wait for the peer now: never 0, which would mean something else."""
        if self._leave_at is None:
            return self.request.timeout
        return max(0.001, min(self.request.timeout, self._leave_at - time.monotonic()))

    def _read(self) -> None:
        assert self._socket
        if self._leave_at is not None and time.monotonic() >= self._leave_at:
            self._finish_waiting("the end")
            return
        try:
            self._socket.settimeout(self._patience())
            data = self._socket.recv(READ_BYTES)
            at = time.monotonic()
        except socket.timeout:
            self._finish_waiting("more")
            return
        except OSError as error:
            self._finish("reset", f"expected more, got {error}")
            return
        if data:
            self.reads.append(Read(at, data))
            self._keep(len(data))
        for part in self._parser.feed(data) if data else self._parser.close():
            if not self.ended:
                self._take(part, at)

    def _take(self, part: Part, at: float) -> None:
        if isinstance(part, Body):
            self._take_body(part.data, at)
        elif isinstance(part, End):
            self._take_end(part, at)
        elif not part.interim:
            self._take_head(part, at)

    def _take_head(self, head: Head, at: float) -> None:
        self.status, self.reason, self.http_version = head.status, head.reason, head.http_version
        self.headers, self.framing, self.headers_at = head.headers, head.framing, at
        self._content = content_decoder(self.header("Content-Encoding"))

    def _take_body(self, data: bytes, at: float) -> None:
        if self.first_byte_at is None:
            self.first_byte_at = at
        try:
            content = self._content.feed(data)
        except MalformedResponse as error:
            self._finish("malformed", str(error))
            return
        if content:
            self.pieces.append(Chunk(at, content))
            self._keep(len(content))

    def _take_end(self, end: End, at: float) -> None:
        self.trailers = end.trailers
        self.framing_complete = not end.error
        error = end.error
        if not error and self.coding_complete is False:
            error = f"expected the end of {self.coding} in the content, got the end of the body"
        self._finish(end.how, error, at)

    def _keep(self, count: int) -> None:
        self._kept += count
        if self._kept > self.request.max_bytes:
            self._finish("left", f"expected at most {self.request.max_bytes} bytes to keep, got more")

    def _finish_waiting(self, awaited: str) -> None:
        if self._leave_at is not None and time.monotonic() >= self._leave_at:
            self._finish("left", f"expected the end within {self.request.max_seconds} s, got none")
        else:
            self._finish("timeout", f"expected {awaited} within {self.request.timeout} s, got nothing")

    def _finish(self, how: str, error: str = "", at: float | None = None) -> None:
        """Note the end, the first time; close in any case."""
        if not self.ended:
            self.ended, self.error = how, error
            self.ended_at = time.monotonic() if at is None else at
        if self._socket:
            _close_with_fin(self._socket)
            self._socket = None

    def _next_chunk(self) -> Chunk | None:
        while self._handed_on == len(self.pieces) and not self.ended:
            self._read()
        if self._handed_on == len(self.pieces) or self._went_by_choice():
            return None
        self._handed_on += 1
        return self.pieces[self._handed_on - 1]

    def _went_by_choice(self) -> bool:
        return self.ended == "left" and not self.error

    def _decode(self, chunk: Chunk) -> None:
        self._decoding_at = chunk.at
        try:
            self._events.extend(Timed(chunk.at, event) for event in self._decoder.feed(chunk.data))
        except EventTooLarge as error:
            self._finish("left", str(error))

    def _take_comment(self, text: str) -> None:
        self.comments.append(TimedComment(self._decoding_at, text))

    def _finish_decoding(self) -> None:
        if not self._went_by_choice():
            try:
                self._decoder.close()
            except EventTooLarge as error:
                self.error = self.error or str(error)
            self.cut_inside_event = self.cut_inside_event or self._decoder.truncated


def _close_with_fin(connection: socket.socket) -> None:
    """Close so that the peer sees a plain end.

    Linux answers close() with RST when bytes are left unread. So the FIN goes first, and what is here already
    is thrown away; the bound is for a peer that sends faster than that.
    """
    try:
        connection.shutdown(socket.SHUT_WR)
        connection.setblocking(False)
        for _ in range(64):
            if not connection.recv(READ_BYTES):
                break
    except (OSError, ValueError):
        pass  # the peer went first, or there is nothing to throw away
    finally:
        connection.close()


@contextlib.contextmanager
def open_exchange(request: Request) -> Iterator[Exchange]:
    """Connect, send, wait for the head (or for an end without one), and leave when the block is left.

    Raises nothing of the network's: look at `ended` and `status`.
    """
    exchange = Exchange(request)
    try:
        exchange._start()
        yield exchange
    finally:
        exchange.leave()


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
