"""Read what is there, never wait for more.

Every usual way of reading with `requests` (`iter_content`, `iter_lines`, `raw.stream`) waits for a full block, or for
the end, when the upstream does not use the chunked coding. Here each read returns what one `recv` gave, in all
framings: from the socket itself where the body is as it is sent; else by `read1` of the libraries, which decompress.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Callable

from flaskstream.errors import UpstreamError, UpstreamTruncated
from flaskstream.interrupt import waits_for, waits_no_longer
from flaskstream.upstream.socket_reader import READ_BYTES, SocketReader, is_as_sent
from flaskstream.waiting import Turn

_SWALLOWS = 2
"""The state of urllib3's decoder of gzip in which it has seen the end, and other bytes after it."""


class Body:
    """The body of a `urllib3` response.

    Args:
        raw: the response; `response.raw` of `requests` with `stream=True`.

    Attributes:
        read: waits for one `recv` and returns what it gave, decompressed; b"" at the end.
        is_decoded: what was compressed has told its own end; a body that is whole by its framing may lack it. `True`
            also where that cannot be told, or nothing was compressed.
    """

    def __init__(self, raw: Any) -> None:
        _check_coding(raw)
        self._socket = _socket_of(raw)
        self._patience = self._socket.gettimeout() if self._socket is not None else None
        self._raw = raw
        self._own: SocketReader | None = None
        waits_for(self, self._own_socket)
        self.read: Callable[[], bytes | None]
        if self._socket is not None and is_as_sent(raw):
            self._own = SocketReader(raw, self._socket)
            self.read = self._own.read
        elif hasattr(raw, "read1"):  # urllib3 2.2 on
            self.read = lambda: raw.read1(READ_BYTES, decode_content=True) or b""
        else:
            self.read = _LegacyReader(raw).read

    @property
    def is_decoded(self) -> bool:
        decoder = getattr(self._raw, "_decoder", None)
        if getattr(decoder, "_state", None) == _SWALLOWS:  # what came behind the end is none of it
            return True
        return getattr(getattr(decoder, "_obj", None), "eof", True) is not False  # of zlib; other codings do not say

    def hand_over(self, turn: Turn) -> SocketReader | None:
        """Have whoever takes from this body's generator wait for it: see `Turn`.

        Returns:
            What reads it; `None`: not every body can be handed over.
        """
        return self._own if self._own is not None and self._own.hand_over(turn) else None

    def take_back(self) -> None:
        """Have reads wait again, in place of whom it was handed over to."""
        if self._own is not None:
            self._own.take_back()

    def wait_at_most(self, seconds: float) -> None:
        """Have each read from now on wait no longer than this, and never longer than before."""
        seconds = seconds if self._patience is None else min(seconds, self._patience)
        if self._own is not None:
            self._own.wait_at_most(seconds)
        else:
            self._set_timeout(seconds)

    def release(self) -> None:
        """Be done with it: the connection is its next request's."""
        waits_no_longer(self)
        if self._own is not None:
            self._own.close()
        self._set_timeout(self._patience)

    def _set_timeout(self, seconds: float | None) -> None:
        own = self._own_socket()
        if own is not None:
            with contextlib.suppress(OSError):  # it is closed
                own.settimeout(seconds)

    def _own_socket(self) -> socket.socket | None:
        """Return the socket while it is this body's: a body that was read to its end has given its connection back."""
        return self._socket if getattr(self._raw, "_connection", None) is not None else None


class _LegacyReader:
    """`read1` for older urllib3, by the `http.client` response and the decoder that it wraps."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._response = raw._fp
        raw._init_decoder()

    def read(self) -> bytes:
        data = self._read_coded()
        while data:
            decoded: bytes = self._raw._decode(data, decode_content=True, flush_decoder=False)
            if decoded:
                return decoded
            data = self._read_coded()
        return b""

    def _read_coded(self) -> bytes:
        data: bytes = self._response.read1(READ_BYTES)
        if data:
            return data
        missing = getattr(self._response, "length", None)  # of what Content-Length promised
        if missing:
            raise UpstreamTruncated(f"expected {missing} more bytes from the upstream, got its end")
        self._response.close()  # Python before 3.12 does not, and whoever gets the connection next depends on it
        self._raw.release_conn()
        return b""


def _check_coding(raw: Any) -> None:
    """urllib3 hands on what it cannot decompress as it is."""
    known = ("", "identity", *raw.CONTENT_DECODERS)
    codings = raw.headers.get("Content-Encoding", "").lower().split(",")
    if any(coding.strip() not in known for coding in codings):
        raise UpstreamError(f"expected identity or one of {', '.join(known[2:])} from the upstream, got {codings!r}")


def _socket_of(raw: Any) -> socket.socket | None:
    """Return the socket below; `None` where the layers are not the usual ones: then its timeout stays as it is.

    urllib3 knows it as well, but not for a body that ends with its connection.
    """
    file = getattr(getattr(raw, "_fp", None), "fp", None)
    found = getattr(getattr(file, "raw", None), "_sock", None)
    return found if hasattr(found, "settimeout") else None
