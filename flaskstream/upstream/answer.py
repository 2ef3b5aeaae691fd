"""An upstream's answer: its head, and the body that is still coming."""

from __future__ import annotations

import contextlib
import http.client
import re
import time
from typing import Any, Callable, Iterator

import requests

from flaskstream.errors import UpstreamError
from flaskstream.upstream.body import Body
from flaskstream.upstream.errors import translated_errors
from flaskstream.upstream.socket_reader import READ_BYTES
from flaskstream.waiting import Turn

DRAIN_SECONDS = 0.02
"""How long the end of a whole answer's framing is awaited. It mostly comes in the same packet, and then the connection
can be used again, which saves a TLS handshake; the client's `done` waits for as long."""

FORWARDED_HEADERS = ("Retry-After", "X-Request-Id", "Request-Id")
"""All that is told of an upstream's headers; the last is Anthropic's name for the id. The others describe its
connection, its coding, or its cookies."""

# Servers that name no type, or none in particular, are given the benefit of the doubt.
_NO_TYPES = ("application/octet-stream", "binary/octet-stream", "")

_FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # RFC 9110 5.5; servers refuse to send anything else


class Answer:
    """An upstream's answer whose body is still coming.

    Attributes:
        response: the response of `requests`.
        status: the HTTP status.
        headers: by any case of their names.
    """

    def __init__(self, response: requests.Response, is_read: bool = False, hide: Callable[[str], str] = str) -> None:
        self.response = response
        self._hide = hide  # the key, should a header repeat it
        self._is_read = is_read
        self._body: Body | None = None
        self.status = response.status_code
        self.headers = response.headers

    @property
    def forwarded_headers(self) -> dict[str, str]:
        """Those of the upstream's headers that a client may have, and how long it took to send them."""
        found = {name: self._header(name) for name in FORWARDED_HEADERS if name in self.headers}
        told = {name: value for name, value in found.items() if _FIELD_VALUE.fullmatch(value)}
        milliseconds = self.response.elapsed.total_seconds() * 1000
        return {**told, "Server-Timing": f"upstream;dur={milliseconds:.1f}"}

    @property
    def is_framed(self) -> bool:
        """Whether the body tells its end; else it ends with its connection, cut or not."""
        below = getattr(self.response.raw, "_fp", None)  # which reads it, by whatever its headers say
        if isinstance(below, http.client.HTTPResponse):
            return bool(below.chunked) or below.length is not None
        return "chunked" in self._header("Transfer-Encoding").lower() or "Content-Length" in self.headers

    @property
    def is_decoded(self) -> bool:
        """Whether what was compressed has told its own end, as far as it was read."""
        return self._body is None or self._body.is_decoded

    @property
    def content_type(self) -> str:
        """As the upstream names it; "" if it names none, or one that no server would send on."""
        told = self._header("Content-Type")
        return told if _FIELD_VALUE.fullmatch(told) else ""

    def _header(self, name: str) -> str:
        return self._hide(
            " ".join(self.headers.get(name, "").split())
        )  # an old server may still fold it into two lines

    def expect_type(self, *types: str) -> None:
        """Raise `UpstreamError` if the body is of none of these types, such as a login page with the status 200."""
        told = self._header("Content-Type")
        if told.split(";")[0].strip().lower() not in types:
            raise UpstreamError(f"expected {types[0]} from the upstream, got {told!r:.80}")

    def expect_stream(self, *types: str) -> None:
        """Raise `UpstreamError` if this is no stream of one of these types; none given: no stream of events."""
        self.expect_type(*(types or ("text/event-stream",)), *_NO_TYPES)

    def chunks(self) -> Iterator[bytes]:
        """Yield the body, decompressed, in the pieces in which it arrives. Again: what is left of it.

        None is empty, but where the body was handed over: nothing came while it was the turn of whoever takes.

        Raises:
            IdleTimeout: nothing came for as long as the upstream may be silent.
            UpstreamTruncated: it ended before its framing did.
            UpstreamError: it cannot be decompressed.
        """
        if self._is_read:
            yield from filter(None, [self.response.content])
            return
        read = self._opened_body().read
        with translated_errors(before_head=False):
            chunk = read()
            while chunk != b"":
                yield chunk or b""
                chunk = read()

    def read_some(self, most_bytes: int, most_seconds: float) -> bytes:
        """Return what comes of the body within these limits; raise nothing."""
        body, deadline = b"", time.monotonic() + most_seconds
        if self._body is not None:
            self._body.take_back()
        with contextlib.suppress(UpstreamError):
            self.wait_at_most(most_seconds)
            for chunk in self.chunks():
                body += chunk
                left = deadline - time.monotonic()
                if len(body) >= most_bytes or left <= 0:
                    break
                self.wait_at_most(left)
        return body[:most_bytes]

    def wait_at_most(self, seconds: float) -> None:
        """Have `chunks` raise `IdleTimeout` after so many seconds of silence from now on."""
        if not self._is_read:
            self._opened_body().wait_at_most(seconds)

    def hand_over(self, turn: Turn, lane: Any = None) -> None:
        """Begin the turn of whoever takes from what reads this body, if that is to be had; see `Turn`.

        Args:
            turn: which begins.
            lane: a `flaskstream.relay.lane.Lane` for it.
        """
        reader = None if self._is_read else self._opened_body().hand_over(turn)
        if reader is not None and lane is not None:
            lane.begin(reader, turn)
            turn.lane, turn.take = lane, lane.take

    def drain(self) -> None:
        """Read the end of an answer that is whole, if it is here already: then the connection is kept."""
        self.read_some(READ_BYTES, DRAIN_SECONDS)

    def _opened_body(self) -> Body:
        if self._body is None:
            self._body = Body(self.response.raw)
        return self._body

    def close(self) -> None:
        """Close the connection, unless the body was read to its end: then it is kept for the next request."""
        if self._body is not None:
            self._body.release()
        self.response.close()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
