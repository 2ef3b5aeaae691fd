"""How the body of an HTTP/1 answer tells its end: by chunks, by a length, or by its connection's end. Pure.

https://www.rfc-editor.org/rfc/rfc9112#section-6
"""

from __future__ import annotations

from typing import Protocol

from flaskstream.errors import UpstreamTruncated

MAX_LINE_BYTES = 64 * 1024
"""Of a chunk's size with its extensions, and of one line behind the last chunk."""

_USUAL_SIZE_LINE = 8  # bytes
_MOST_DIGITS = 15


class Framing(Protocol):
    """Takes the bytes of a connection, cut anywhere, and returns the body's own."""

    is_over: bool
    """The body is whole."""

    surplus: int
    """Bytes that came behind a whole body: nobody has asked for them, and the connection cannot be used again."""

    failure: UpstreamTruncated | None
    """What came behind the last bytes that were returned cannot be understood."""

    @property
    def is_between_chunks(self) -> bool:
        """The next byte is the first one of a chunk: see `whole_chunk`."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Return what is of the body; may be empty."""
        ...

    def close(self) -> None:
        """Say that the connection has ended. Raises `UpstreamTruncated` if the body is not whole."""
        ...


class UntilItsEnd:
    """A body that ends with its connection, cut or not."""

    failure: UpstreamTruncated | None = None
    is_between_chunks = False

    def __init__(self) -> None:
        self.is_over = False
        self.surplus = 0

    def feed(self, data: bytes) -> bytes:
        return data

    def close(self) -> None:
        self.is_over = True


class Counted:
    """A body of a length that was told.

    Args:
        length: in bytes.
    """

    failure: UpstreamTruncated | None = None
    is_between_chunks = False

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_over = not length
        self.surplus = 0

    def feed(self, data: bytes) -> bytes:
        content = data[: self._left]
        self._left -= len(content)
        self.is_over = not self._left
        self.surplus += len(data) - len(content)
        return content

    def close(self) -> None:
        if self._left:
            raise UpstreamTruncated(f"expected {self._left} more bytes from the upstream, got its end")


class Chunked:
    """A body in chunks, each behind its size."""

    __slots__ = ("_left", "_line", "_take", "failure", "is_over", "surplus")

    def __init__(self) -> None:
        self.is_over = False
        self.surplus = 0
        self.failure: UpstreamTruncated | None = None
        self._left = 0  # bytes of this chunk that have not come
        self._line = b""  # that has no end yet
        self._take = Chunked._take_size  # what the next line is

    @property
    def is_between_chunks(self) -> bool:
        return self._take is Chunked._take_size and not self._left and not self._line

    def feed(self, data: bytes) -> bytes:
        content = whole_chunk(data) if self.is_between_chunks else None
        return self._fed(data) if content is None else content

    def _fed(self, data: bytes) -> bytes:
        if self._line:
            data = self._line + data
            self._line = b""
        contents = []
        at = 0
        while at < len(data) and not self.is_over and not self.failure:
            if self._left:
                content = data[at : at + self._left]
                contents.append(content)
                at += len(content)
                self._left -= len(content)
                continue
            end = data.find(b"\n", at) + 1
            if not end:
                self._keep(data[at:])
                break
            self._take(self, data[at:end].rstrip(b"\r\n"))
            at = end
        self.surplus = len(data) - at if self.is_over else 0
        return contents[0] if len(contents) == 1 else b"".join(contents)

    def _keep(self, line: bytes) -> None:
        if len(line) > MAX_LINE_BYTES:
            self._fail("the size of a chunk", line)
        self._line = line

    def _fail(self, expected: str, got: bytes) -> None:
        self.failure = UpstreamTruncated(f"expected {expected} from the upstream, got {len(got)} bytes of none")

    def _take_size(self, line: bytes) -> None:
        size = _size(line.partition(b";")[0].strip())
        if size is None:
            self._fail("the size of a chunk", line)
            return
        self._left = size
        self._take = Chunked._take_end_of_chunk if self._left else Chunked._take_trailer

    def _take_end_of_chunk(self, line: bytes) -> None:
        if line:
            self._fail("the end of a chunk", line)
        self._take = Chunked._take_size

    def _take_trailer(self, line: bytes) -> None:
        self.is_over = not line

    def close(self) -> None:
        if self._take is not Chunked._take_trailer:  # some servers leave out the empty line behind the last chunk
            raise UpstreamTruncated("expected the last chunk from the upstream, got the end of its connection")
        self.is_over = True


def whole_chunk(data: bytes) -> bytes | None:
    """Return what is in a chunk that is there to its last byte, as it comes from who flushes; `None`: it is no such."""
    end = data.find(b"\r\n", 1, _USUAL_SIZE_LINE)
    size = len(data) - end - 4
    is_whole = end > 0 and size > 0 and data.endswith(b"\r\n") and data[:end] == b"%x" % size
    return data[end + 2 : -2] if is_whole else None


def _size(digits: bytes) -> int | None:
    if len(digits) > _MOST_DIGITS or not digits.isalnum() or digits[1:2] in (b"x", b"X"):  # int() takes a 0x
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None
