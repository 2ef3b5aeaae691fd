"""HTTP/1 responses without input or output: bytes in, parts out (RFC 9112).

The strategy: a state is a method that takes from the buffer what it can use and tells whether to go on.
Only an unfinished line is ever held back; bytes of the body are handed on as they come, also in the
middle of a chunk. What cannot be read is no exception but a last part, `End("malformed", ...)`: to the
one who measures, a fault of the peer is a finding, and what came before it counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Callable, Tuple, Union

from flaskstream.errors import FlaskStreamError

Headers = Tuple[Tuple[str, str], ...]

MAX_LINES_BYTES = 256 * 1024
"""The limit for a head, for trailers and for a line of chunk size: real heads stay under 64 KiB."""

SHOWN_BYTES = 80
"""How much of what came instead is quoted."""

_STATUS_LINE = re.compile(rb"HTTP/(\d\.\d) (\d{3})(?: (.*))?")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")


class MalformedResponse(FlaskStreamError, ValueError):
    """The peer's bytes are no HTTP/1 response, or not in the coding that its head names."""


@dataclass(frozen=True)
class Head:
    """A status line and its headers, in their order. Statuses 100 and 102 to 199 are interim: another head follows.

    Attributes:
        framing: how the end of the body is told: "chunked", "length" or "close" (by the end of the connection).
            A response that has no body (to HEAD; 204, 304) has "length", of 0.
        length: of the body in bytes; `None` where the framing does not tell.
    """

    http_version: str
    status: int
    reason: str
    headers: Headers
    framing: str
    length: int | None

    @property
    def interim(self) -> bool:
        return self.status < 200 and self.status != 101


@dataclass(frozen=True)
class Body:
    """Bytes of the body, without their framing. A chunk of the peer may come in several of these; none holds two."""

    data: bytes


@dataclass(frozen=True)
class End:
    """The last part.

    Attributes:
        how: "final_chunk", "length", "close" (the peer closed) or "malformed".
        error: what was expected and what came. Empty: nothing is missing as far as the framing can tell, which
            in a body framed by "close" is nothing at all.
    """

    how: str
    error: str = ""
    trailers: Headers = ()


Part = Union[Head, Body, End]


def find_header(headers: Headers, name: str) -> str | None:
    """Return the value of the header, several joined by ", " (RFC 9110 5.3); `None` if there is none."""
    values = [value for key, value in headers if key.lower() == name.lower()]
    return ", ".join(values) if values else None


class ResponseParser:
    """Feed it what the network gave; it returns the parts that this made known.

    Args:
        method: of the request: the response to HEAD has no body whatever its headers say.
    """

    def __init__(self, method: str = "GET") -> None:
        self._method = method
        self._buffer = bytearray()
        self._searched = 0  # so many bytes of the buffer are known to hold no line end
        self._lines_bytes = 0
        self._parts: list[Part] = []
        self._state: Callable[[], bool] = self._status_line
        self._status = ("", 0, "")
        self._pairs: list[tuple[str, str]] = []
        self._left = 0  # bytes of body until the length, or the chunk, is complete
        self._missing = "a status line"

    @property
    def excess(self) -> bytes:
        """What came after the end: nothing, from a sound peer."""
        return bytes(self._buffer) if self._state == self._ended else b""

    def feed(self, data: bytes) -> list[Part]:
        """Take bytes, return the parts. Interim heads are returned too."""
        self._buffer += data
        try:
            while self._state():
                pass
        except MalformedResponse as error:
            self._end("malformed", str(error))
        return self._take_parts()

    def close(self) -> list[Part]:
        """Take note that the peer closed; nothing to say if the response had ended before."""
        if self._state != self._ended:
            self._end("close", f"expected {self._what_is_missing()}, got the end" if self._missing else "")
        return self._take_parts()

    def _take_parts(self) -> list[Part]:
        parts, self._parts = self._parts, []
        return parts

    def _what_is_missing(self) -> str:
        return f"{self._left} more bytes of {self._missing}" if self._left else self._missing

    # The states. Each returns whether the next one (or the same again) has something to look at.

    def _status_line(self) -> bool:
        line = self._line()
        if line is None:
            return False
        match = _STATUS_LINE.fullmatch(line)
        if not match:
            raise MalformedResponse(f"expected a status line like HTTP/1.1 200 OK, got {_shown(line)}")
        version, status, reason = match.groups(b"")
        self._status = (version.decode(), int(status), reason.decode("latin-1"))
        self._missing = "the rest of the headers"
        self._state = self._header_line
        return True

    def _header_line(self) -> bool:
        line = self._line()
        if line:
            self._add_header(line)
        elif line is not None:
            self._begin_body(self._head())
        return line is not None

    def _counted(self) -> bool:
        self._left -= self._hand_on(self._left)
        if not self._left:
            self._end("length")
        return False

    def _until_close(self) -> bool:
        self._hand_on(len(self._buffer))
        return False

    def _chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = line.partition(b";")[0].strip()  # what follows is an extension, which nobody uses
        if not _CHUNK_SIZE.fullmatch(size):
            raise MalformedResponse(f"expected the size of a chunk in hexadecimal, got {_shown(line)}")
        self._left = int(size, 16)
        self._lines_bytes = 0
        self._missing = "a chunk" if self._left else "the end of the trailers"
        self._state = self._chunk_data if self._left else self._trailer_line
        return True

    def _chunk_data(self) -> bool:
        self._left -= self._hand_on(self._left)
        if self._left:
            return False
        self._missing = "the final chunk"
        self._state = self._chunk_end
        return True

    def _chunk_end(self) -> bool:
        start = bytes(self._buffer[:2])
        if start in (b"", b"\r"):
            return False
        if not start.startswith((b"\r\n", b"\n")):
            wrong = start if start.startswith(b"\r") else start[:1]
            raise MalformedResponse(f"expected a line end after the data of a chunk, got {wrong!r}")
        del self._buffer[: 2 if start == b"\r\n" else 1]
        self._state = self._chunk_size
        return True

    def _trailer_line(self) -> bool:
        line = self._line()
        if line:
            self._add_header(line)
        elif line is not None:
            self._end("final_chunk", trailers=tuple(self._pairs))
        return line is not None

    def _ended(self) -> bool:
        return False

    # What the states are made of.

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if self._lines_bytes + (len(self._buffer) if end < 0 else end) > MAX_LINES_BYTES:
            raise MalformedResponse(f"expected at most {MAX_LINES_BYTES} bytes of lines, got more")
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        self._lines_bytes += end + 1
        return line[:-1] if line.endswith(b"\r") else line

    def _add_header(self, line: bytes) -> None:
        name, colon, value = line.decode("latin-1").partition(":")
        if line[:1] in b" \t" and self._pairs:  # the folding of RFC 9112 5.2: obsolete, and still met
            name, before = self._pairs.pop()
            self._pairs.append((name, f"{before} {line.decode('latin-1').strip()}"))
        elif colon and name.strip():
            self._pairs.append((name.strip(), value.strip(" \t")))
        else:
            raise MalformedResponse(f"expected a header like name: value, got {_shown(line)}")

    def _head(self) -> Head:
        version, status, reason = self._status
        headers = tuple(self._pairs)
        self._pairs = []
        self._lines_bytes = 0
        return Head(version, status, reason, headers, *_framing(self._method, status, headers))

    def _begin_body(self, head: Head) -> None:
        self._parts.append(head)
        if head.interim:
            self._missing = "the final status line"
            self._state = self._status_line
            return
        self._left = head.length or 0
        self._missing = _MISSING[head.framing]
        self._state = {"chunked": self._chunk_size, "length": self._counted, "close": self._until_close}[head.framing]

    def _hand_on(self, at_most: int) -> int:
        data = bytes(self._buffer[:at_most])
        if data:
            del self._buffer[: len(data)]
            self._parts.append(Body(data))
        return len(data)

    def _end(self, how: str, error: str = "", trailers: Headers = ()) -> None:
        self._parts.append(End(how, error, trailers))
        self._state = self._ended


_MISSING = {"chunked": "the final chunk", "length": "the body", "close": ""}


def _framing(method: str, status: int, headers: Headers) -> tuple[str, int | None]:
    """Return the framing and the length of the body: the rules of RFC 9112 6.3, in their order."""
    if status == 101:
        return "close", None
    if method == "HEAD" or status < 200 or status in (204, 304):
        return "length", 0
    transfer = find_header(headers, "Transfer-Encoding")
    if transfer is not None:
        last = transfer.rpartition(",")[2].strip().lower()
        return ("chunked" if last == "chunked" else "close"), None
    length = find_header(headers, "Content-Length")
    return ("close", None) if length is None else ("length", _content_length(length))


def _content_length(value: str) -> int:
    lengths = {part.strip() for part in value.split(",")}
    (length,) = lengths if len(lengths) == 1 else ("",)
    if not (length.isascii() and length.isdigit() and len(length) <= 18):
        raise MalformedResponse(f"expected one number as Content-Length, got {value[:SHOWN_BYTES]!r}")
    return int(length)


def _shown(line: bytes) -> str:
    return repr(line[:SHOWN_BYTES])
