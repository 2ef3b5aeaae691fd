"""Read a body that is as it was sent from the socket itself, past the libraries and their buffers."""

from __future__ import annotations

import contextlib
import http.client
import io
import math
import socket
import ssl
import time
from typing import Any

from flaskstream.upstream.framings import Chunked, Counted, Framing, UntilItsEnd, whole_chunk
from flaskstream.waiting import GoesBy, Turn, readable

READ_BYTES = 64 * 1024
"""At most this much is taken at once: what one `recv` of a fast upstream gives; no read waits to fill it."""


class SocketReader:
    """Reads a body that is as it was sent from its socket. Under gevent it keeps what waits for that.

    Args:
        raw: the response, of which nothing was read.
        own: its socket.
    """

    __slots__ = (
        *("_back", "_first", "_framing", "_has_ended", "_heard_at", "_is_between_chunks", "_is_heard", "_is_tls"),
        *("_patience", "_raw", "_readable", "_socket", "_source", "_turn"),
    )

    def __init__(self, raw: Any, own: Any) -> None:
        self._raw = raw
        self._socket = own
        self._framing = _framing_of(raw._fp)
        patience = own.gettimeout()
        self._patience = math.inf if patience is None else patience
        self._heard_at = time.monotonic()
        self._turn: Turn | None = None
        self._has_ended = False
        self._is_heard = True
        self._back: bytes | Exception | None = None
        self._first = b""
        try:
            self._first = _buffered(raw._fp.fp, own)
        except OSError as error:  # it is told once, and by the first read
            self._back = error
        self._readable = readable(own.fileno())
        self._is_tls = hasattr(own, "pending")  # what TLS has decrypted makes no socket readable
        self._source = own if self._is_tls else getattr(own, "_sock", own)
        self._is_between_chunks = False  # nor is there more behind what was read
        if self._readable is None:
            own.settimeout(patience)

    def read(self, express: GoesBy | None = None) -> bytes | None:
        """Return what one `recv` gave, b"" at the end; `None`: the turn of whoever takes is over.

        Args:
            express: see `Waiting.wait`.

        Raises:
            OSError: a timeout, for instance.
            UpstreamTruncated: the end is missing.
        """
        if self._back is not None:
            return self._taken_back()
        if self._has_ended:
            express = None  # it has seen that already
        if self._is_heard:  # what passed meanwhile was no silence of the upstream's: nobody has listened
            self._heard_at = time.monotonic()
            self._is_heard = False
        framing = self._framing
        while not framing.is_over:
            if framing.failure is not None:
                raise framing.failure
            if self._first or self._readable is None:
                data = self._first or self._socket.recv(READ_BYTES)
                self._first = b""
            else:
                over = self._heard_at + self._patience
                until = over
                if self._turn is not None and self._turn.until < over:
                    until = self._turn.until
                while (self._is_tls and self._socket.pending()) or self._readable.wait(until, express):
                    try:
                        data = self._source.recv(READ_BYTES)
                        break
                    except (BlockingIOError, ssl.SSLWantReadError):
                        continue  # half a record of TLS
                else:
                    if time.monotonic() < self._heard_at + self._patience:
                        return None  # whoever takes has other things to do
                    data = self._last_chance()
                self._is_heard = True
            if not data:
                framing.close()
            content = framing.feed(data)
            self._is_between_chunks = False  # as far as is known
            if framing.is_over:
                self._give_back()
            if content:
                return content
        self._give_back()
        return b""

    def read_now(self) -> bytes | None:
        """Return what has come, in the hub: b"" if it is nothing yet; `None`: it takes a `read` to tell."""
        try:
            data = self._source.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return b""
        except OSError as error:
            self._back = error
            return None
        if not data:
            self._has_ended = True
            return None
        self._heard_at = time.monotonic()
        content = whole_chunk(data) if self._is_between_chunks else None
        return self._fed(data) if content is None else content

    def _fed(self, data: bytes) -> bytes | None:
        framing = self._framing
        content = framing.feed(data)
        has_more = self._is_tls and self._socket.pending()
        self._is_between_chunks = framing.is_between_chunks and not self._is_tls
        if framing.is_over or framing.failure is not None or has_more:
            self._back = content or None
            return None
        return content

    def _last_chance(self) -> bytes:
        """Return what is there after all: a process that stood still finds its timer and its socket at once."""
        try:
            data: bytes = self._source.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            raise socket.timeout("timed out") from None
        return data

    @property
    def gives_up_at(self) -> float:
        """When its silence will have lasted too long, in seconds of the monotonic clock."""
        return self._heard_at + self._patience

    def hand_over(self, turn: Turn) -> bool:
        if self._readable is None or self._framing.is_over:
            return False
        turn.begin(self._readable)
        self._turn = turn
        return True

    def put_back(self, what: bytes | Exception) -> None:
        """Have the next read return, or raise, this."""
        self._back = what

    def listen_anew(self) -> None:
        """Have the time until now be no silence: nobody has listened."""
        self._is_heard = True

    def take_back(self) -> None:
        self._turn = None

    def _taken_back(self) -> bytes:
        back, self._back = self._back, None
        self._is_heard = True
        if isinstance(back, Exception):
            raise back
        return back or b""

    def wait_at_most(self, seconds: float) -> None:
        self._patience, self._heard_at = seconds, time.monotonic()
        if self._readable is None:
            with contextlib.suppress(OSError):  # it is closed
                self._socket.settimeout(seconds)

    def close(self) -> None:
        if self._readable is not None:
            self._readable.close()
            self._readable = None

    def _give_back(self) -> None:
        """Have the connection used again, unless more has come than was asked for."""
        self.close()
        self._raw._fp.close()
        if self._framing.surplus and self._raw._connection is not None:
            self._raw._connection.close()
        self._raw.release_conn()


def is_as_sent(raw: Any) -> bool:
    """Tell whether what is read from the socket is the body: not compressed, and read by nobody yet."""
    response, coding = raw._fp, raw.headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity") or type(response) is not http.client.HTTPResponse:
        return False
    is_fresh = getattr(raw, "_fp_bytes_read", None) == 0 and not isinstance(response.chunk_left, int)
    return is_fresh and isinstance(response.fp, io.BufferedReader) and (response.chunked or response.length != 0)


def _framing_of(response: http.client.HTTPResponse) -> Framing:
    if response.chunked:
        return Chunked()
    return UntilItsEnd() if response.length is None else Counted(response.length)


def _buffered(file: io.BufferedReader, own: Any) -> bytes:
    """Return what was read of the body together with the head, and leave the socket so that it never blocks."""
    own.settimeout(0.0)
    try:
        return bytes(file.peek())
    except (BlockingIOError, ssl.SSLWantReadError):
        return b""
