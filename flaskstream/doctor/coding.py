"""Content codings, undone as far as the bytes so far allow.

zlib gives out all that a sync flush makes known, so what a server flushed is here at once, and what it did
not flush is seen to be late. A coding that the standard library cannot undo is left as it is, and said.
"""

from __future__ import annotations

import zlib
from typing import Callable

from flaskstream.doctor.wire import MalformedResponse

_GZIP_WBITS = 16 + zlib.MAX_WBITS
_GZIP_START = b"\x1f"


class ContentDecoder:
    """Bytes of a body in, bytes of its content out. This one is for "identity": nothing to undo.

    Attributes:
        coding: the name as the head gave it, in lower case; "identity" for none.
        note: what a reader of the measurement must know; mostly empty.
    """

    def __init__(self, coding: str = "identity") -> None:
        self.coding = coding
        self.note = ""

    @property
    def complete(self) -> bool | None:
        """Tell whether the coding's own end has been seen (nothing at all is whole too); `None`: cannot be told."""
        return True

    def feed(self, data: bytes) -> bytes:
        """Return what these bytes make known, which may be nothing.

        Raises:
            MalformedResponse: they are not in this coding.
        """
        return data


class _Undecoded(ContentDecoder):
    def __init__(self, coding: str) -> None:
        super().__init__(coding)
        self.note = f"the content is coded as {coding!r}, which is left undecoded: its bytes are as they came"

    @property
    def complete(self) -> bool | None:
        return None


class _Zlib(ContentDecoder):
    """gzip (RFC 1952), which may be several members, and deflate (RFC 1950, and bare RFC 1951, which is met too)."""

    def __init__(self, coding: str) -> None:
        super().__init__(coding)
        self._stream: zlib._Decompress | None = None

    @property
    def complete(self) -> bool | None:
        return self._stream is None or self._stream.eof

    def feed(self, data: bytes) -> bytes:
        content = []
        while data:
            if self._stream is None or self._stream.eof:
                if self._stream and not (self._is_gzip and data.startswith(_GZIP_START)):
                    self.note = f"bytes after the end of {self.coding} were left out"
                    break
                self._stream = zlib.decompressobj(self._wbits(data))
            content.append(self._decompress(self._stream, data))
            data = self._stream.unused_data
        return b"".join(content)

    @property
    def _is_gzip(self) -> bool:
        return self.coding.endswith("gzip")

    def _wbits(self, data: bytes) -> int:
        if self._is_gzip:
            return _GZIP_WBITS
        # The first byte of RFC 1950 names the method 8 in its low half; no encoder begins bare deflate so.
        return zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS

    def _decompress(self, stream: zlib._Decompress, data: bytes) -> bytes:
        try:
            return stream.decompress(data)
        except zlib.error as error:
            raise MalformedResponse(f"expected content in {self.coding}, got bytes that are not: {error}") from error


_DECODERS: dict[str, Callable[[str], ContentDecoder]] = {
    "identity": ContentDecoder,
    "gzip": _Zlib,
    "x-gzip": _Zlib,
    "deflate": _Zlib,
}


def content_decoder(content_encoding: str | None) -> ContentDecoder:
    """Return the decoder for the value of a Content-Encoding header. Of two codings at once, none is undone."""
    coding = (content_encoding or "identity").strip().lower()
    return _DECODERS.get(coding, _Undecoded)(coding)
