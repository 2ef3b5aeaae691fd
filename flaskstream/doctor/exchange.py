"""A request that went out and the answer as it comes, over one connection.

One `recv` is one read: it is stamped the moment it returns and handed on at once; nothing here ever waits
for more than is there. What the network or the peer does wrong is a finding, not an exception: it stands in
`ended` and `error`. Only a request that cannot be written raises.

All times are seconds of `time.monotonic()`.
"""

from __future__ import annotations

import collections
import contextlib
import time
from dataclasses import replace
from typing import Iterator

from flaskstream.doctor.arrivals import Chunk, Read, Timed, TimedComment
from flaskstream.doctor.coding import ContentDecoder, content_decoder
from flaskstream.doctor.connection import Connection, ConnectionEnded, Patience
from flaskstream.doctor.protocols import protocol_for
from flaskstream.doctor.request import Request
from flaskstream.doctor.wire import Body, End, Head, Headers, MalformedResponse, Part, find_header
from flaskstream.errors import EventTooLarge
from flaskstream.sse import Decoder


class Exchange:
    """A request that went out and the answer as it comes. `open_exchange` makes it.

    Attributes:
        status, reason, http_version, headers: of the final head; `None`, "", "" and () until it is there.
        framing: "chunked", "length" or "close" (RFC 9112 6.3), or "http2"; "" without a head.
        coding: the Content-Encoding, "identity" for none.
        coding_note: what to know about the decoding, such as that a coding was left undecoded.
        trailers: headers after the body.
        connect_seconds: how long the TCP connection took: one round trip.
        address: "ADDRESS:PORT" of this client, as the peer sees it if nothing is between; "" without a connection.
        sent_at: when the last byte of the request had been given to the kernel; when it was tried, if it never was.
        headers_at: when the final head was whole; `None` before.
        first_byte_at: when the first byte of the body came, still coded; `None` before.
        reads: every read so far.
        pieces: every decoded piece of the content so far.
        comments: comments so far, of those who read `events()`.
        ended: `None` while it goes on; "final_chunk", "length" and "end_stream" (HTTP/2): whole; "close": the peer
            closed, which is whole only where the framing is "close"; "reset" by the peer, the connection or its one
            stream of HTTP/2; "timeout": silence, or no connection in time; "refused": no connection (no listener, no
            such name, TLS failed, no HTTP/2); "malformed": bytes that are no HTTP; "left": this client went, by its own
            choice or at its limits.
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
        self._patience = Patience(request)
        self.sent_at = self._patience.began_at
        self._connection: Connection | None = None
        self._protocol = protocol_for(request)
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
        if self._connection:
            self._connection.reset()
            self._connection = None
        self._finish("left")

    # From the outside in: connection, reads, parts, content, events.

    def _start(self) -> None:
        try:
            self._connection = Connection(self.request, self._patience)
            self.connect_seconds, self.address = self._connection.connect_seconds, self._connection.address
            if self._connection.http_version != self.request.http_version:
                self._protocol = protocol_for(replace(self.request, http_version=self._connection.http_version))
            self._send()
        except ConnectionEnded as over:
            self._finish(over.how, over.error)
        while not self.ended and self.headers_at is None:
            self._read()

    def _send(self) -> None:
        assert self._connection
        try:
            self._connection.send(self._protocol.outgoing())
        finally:
            self.sent_at = time.monotonic()

    def _read(self) -> None:
        assert self._connection
        try:
            data = self._connection.receive()
        except ConnectionEnded as over:
            self._finish(over.how, over.error)
            return
        at = time.monotonic()
        if data:
            self.reads.append(Read(at, data))
            self._keep(len(data))
        for part in self._protocol.feed(data) if data else self._protocol.close():
            if not self.ended:
                self._take(part, at)
        self._answer()

    def _answer(self) -> None:
        """Send what the protocol wants said now."""
        answer = self._protocol.outgoing()
        if answer and self._connection:
            try:
                self._connection.send(answer)
            except ConnectionEnded:
                pass  # there may be more to read, and then the end, which tells more

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
        if head.status == 101:  # what follows is no HTTP, and nobody says when it ends
            self._finish("malformed", "expected an answer in HTTP, got 101: a change to another protocol", at)

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

    def _finish(self, how: str, error: str = "", at: float | None = None) -> None:
        """Note the end, the first time; close in any case."""
        if not self.ended:
            self.ended, self.error = how, error
            self.ended_at = time.monotonic() if at is None else at
        if self._connection:
            self._connection.close(self._protocol.farewell())
            self._connection = None

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
