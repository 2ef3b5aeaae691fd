"""What an exchange needs of its version of HTTP: what to send, and what the bytes that came mean."""

from __future__ import annotations

from typing import Protocol

from flaskstream.doctor.request import Request
from flaskstream.doctor.wire import Part, ResponseParser


class HttpProtocol(Protocol):
    """One exchange in one version of HTTP, without input or output."""

    def outgoing(self) -> bytes:
        """Return what is to be sent now: the request the first time, and later what the protocol answers with."""

    def feed(self, data: bytes) -> list[Part]:
        """Take bytes, return the parts that they made known."""

    def close(self) -> list[Part]:
        """Take note that the peer closed."""

    def farewell(self) -> bytes:
        """Return what a client that goes says before."""


class Http1(ResponseParser):
    """HTTP/1: the request is sent, and then there is nothing more to say."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.method)
        self._outgoing = request.encode()

    def outgoing(self) -> bytes:
        outgoing, self._outgoing = self._outgoing, b""
        return outgoing

    def farewell(self) -> bytes:
        return b""


def protocol_for(request: Request) -> HttpProtocol:
    """Return the protocol of the version that the request has."""
    if request.http_version != "2":
        return Http1(request)
    from flaskstream.doctor.http2 import Http2  # it needs a package that not everybody has

    return Http2(request)
