"""A client of one answer: what of it has come, and the times that stand in it."""

from __future__ import annotations

import re
import socket

from bench.paced_upstream import STAMP_DIGITS

_STAMP = re.compile(rb"@(\d{%d})" % STAMP_DIGITS)


class Chunks:
    """The body within the chunks of HTTP/1.1; all of it, if it is not chunked."""

    def __init__(self, is_chunked: bool) -> None:
        self._is_chunked = is_chunked
        self._left = 0  # of the chunk that has begun, with the end of its line
        self._rest = b""
        self.is_over = False

    def feed(self, data: bytes) -> bytes:
        """Return what of the body is in these bytes."""
        if not self._is_chunked:
            return data
        if self._rest:
            data, self._rest = self._rest + data, b""
        found, at, end = [], 0, len(data)
        while at < end:
            if not self._left:
                line_end = data.find(b"\n", at)
                if line_end < 0:
                    self._rest = data[at:]
                    break
                size = int(data[at:line_end].partition(b";")[0] or b"0", 16)
                at = line_end + 1
                self._left = size + 2
                if not size:
                    self.is_over = True
                    break
            here = min(self._left, end - at)
            if self._left > 2:
                found.append(data[at : at + min(self._left - 2, here)])
            at += here
            self._left -= here
        return found[0] if len(found) == 1 else b"".join(found)


class Stream:
    """One client of one answer."""

    __slots__ = ("asked_at", "body", "first_at", "head", "latencies", "socket", "tail")

    def __init__(self, where: tuple[str, int]) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(where)
        self.head: bytes | None = b""
        self.body = Chunks(False)
        self.tail = b""
        self.asked_at = 0
        self.first_at = 0
        self.latencies: list[int] = []

    def stamps(self, data: bytes) -> list[bytes]:
        """Return the times that stand in these bytes. Raises `ValueError`: the answer is an error; says which."""
        if self.head is not None:
            data = self._read_head(data)
        data = self.body.feed(data)
        if self.tail:
            data = self.tail + data
            self.tail = b""
        found = _STAMP.findall(data)
        last = data.rfind(b"@")
        if last >= 0 and len(data) - last <= STAMP_DIGITS:
            self.tail = data[last:]
        return found

    def _read_head(self, data: bytes) -> bytes:
        assert self.head is not None
        self.head += data
        head, blank, rest = self.head.partition(b"\r\n\r\n")
        if not blank:
            return b""
        if head[9:12] != b"200":
            raise ValueError(self.head[:300].decode("latin-1"))
        self.head = None
        self.body = Chunks(b"transfer-encoding: chunked" in head.lower())
        return rest
