"""One exchange in HTTP/2 without input or output: bytes in, parts and bytes out (RFC 9113). Needs the package `h2`.

`h2` knows the protocol; here it is one stream on one connection, in the same parts as HTTP/1. A frame is handed on when
it is whole, which is sooner than any event in it can be. The client grants a window at the start that no stream of
tokens fills, so nothing that is measured ever waits for a WINDOW_UPDATE.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from flaskstream.doctor.request import Request
from flaskstream.doctor.wire import SHOWN_BYTES, Body, End, Head, Headers, MalformedResponse, Part

WINDOW_BYTES = 2**24
"""What the peer may send unasked, as browsers have it; h2 grants more when half of it is used."""

_OF_CONNECTIONS = frozenset({"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"})
"""Headers of HTTP/1 that whoever goes on in HTTP/2 leaves out (RFC 9113 8.2.2)."""

_STREAM = 1  # a client's first
_HEAD_BYTES = 9  # of a frame (RFC 9113 4.1)
_SETTINGS, _GOAWAY = 0x4, 0x7
_CANCEL = h2.errors.ErrorCodes.CANCEL


class Http2:
    """What `protocols.HttpProtocol` says, in HTTP/2.

    The last part is `End("end_stream")` where the peer ended the stream (END_STREAM); "reset" where it gave up this
    stream (RST_STREAM) or the connection before it had looked at the stream (GOAWAY); "close" where it closed without
    a word; "malformed".
    """

    def __init__(self, request: Request) -> None:
        self._frames = _Frames()
        self._goodbye = ""  # what a GOAWAY said that lets this stream go on
        self._body = request.body or b""
        self._trailers: Headers = ()
        self._ended = False
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self._h2.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
            },
        )
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW_BYTES)
        self._h2.send_headers(_STREAM, _request_headers(request), end_stream=not self._body)
        self._send_body()

    def outgoing(self) -> bytes:
        return bytes(self._h2.data_to_send())

    def farewell(self) -> bytes:
        """Return RST_STREAM, as browsers send for an answer that nobody wants any more, and GOAWAY."""
        try:
            if not self._ended:
                self._h2.reset_stream(_STREAM, _CANCEL)
            self._h2.close_connection()
        except h2.exceptions.ProtocolError:
            pass  # there is nothing left to say it on
        return self.outgoing()

    def feed(self, data: bytes) -> list[Part]:
        parts: list[Part] = []
        try:
            for kind, frame in self._frames.feed(data):
                parts += self._goaway(frame) if kind == _GOAWAY else self._taken(frame)
            self._send_body()
        except (h2.exceptions.ProtocolError, MalformedResponse) as error:
            parts.append(End("malformed", str(error) or type(error).__name__))
        return self._until_end(parts)

    def close(self) -> list[Part]:
        got = f"the end, after {self._goodbye}" if self._goodbye else "the end"
        return self._until_end([End("close", f"expected END_STREAM, got {got}")])

    def _until_end(self, parts: list[Part]) -> list[Part]:
        """Return the parts up to the one end."""
        if self._ended:
            return []
        end = next((n for n, part in enumerate(parts) if isinstance(part, End)), None)
        self._ended = end is not None
        return parts if end is None else parts[: end + 1]

    def _taken(self, frame: bytes) -> list[Part]:
        return [
            part
            for event in self._h2.receive_data(frame)
            if getattr(event, "stream_id", None) == _STREAM
            for part in self._part(event)
        ]

    def _part(self, event: Any) -> Iterator[Part]:
        make = _PARTS.get(type(event))
        if make is not None:
            yield make(event)
        if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
            self._h2.acknowledge_received_data(event.flow_controlled_length, _STREAM)
        if isinstance(event, h2.events.TrailersReceived):
            self._trailers = _headers(event.headers)
        if isinstance(event, h2.events.StreamEnded):
            yield End("end_stream", trailers=self._trailers)

    def _goaway(self, frame: bytes) -> list[Part]:
        """Take note that no stream after the one it names will be answered; h2 itself would stop listening to all."""
        last = int.from_bytes(frame[_HEAD_BYTES : _HEAD_BYTES + 4], "big") & 0x7FFFFFFF
        code = int.from_bytes(frame[_HEAD_BYTES + 4 : _HEAD_BYTES + 8], "big")
        said = frame[_HEAD_BYTES + 8 :][:SHOWN_BYTES].decode("latin-1")
        goodbye = f"GOAWAY ({_code(code)})" + (f" {said!r}" if said else "")
        if last < _STREAM:
            return [End("reset", f"expected an answer, got {goodbye}")]
        self._goodbye = goodbye
        return []

    def _send_body(self) -> None:
        """Send as much of the body as the peer has room for."""
        while self._body and not self._ended:
            room = min(self._h2.local_flow_control_window(_STREAM), self._h2.max_outbound_frame_size)
            if room <= 0:
                return
            piece, self._body = self._body[:room], self._body[room:]
            self._h2.send_data(_STREAM, piece, end_stream=not self._body)


class _Frames:
    """Bytes in, whole frames out, each with its kind."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._is_begun = False

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._buffer += data
        while len(self._buffer) >= _HEAD_BYTES:
            if not self._is_begun and self._buffer[3] != _SETTINGS:  # RFC 9113 3.4
                shown = bytes(self._buffer[:SHOWN_BYTES])
                raise MalformedResponse(f"expected HTTP/2, which begins with SETTINGS, got {shown!r}")
            self._is_begun = True
            size = _HEAD_BYTES + int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < size:
                return
            frame = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield frame[3], frame


def _request_headers(request: Request) -> list[tuple[bytes, bytes]]:
    parts = urlsplit(request.url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    own = [(name.lower(), value.strip()) for name, value in request.headers if name.lower() not in _OF_CONNECTIONS]
    given = dict(own)
    pairs = [
        (":method", request.method),
        (":scheme", parts.scheme),
        (":authority", given.get("host", parts.netloc)),
        (":path", target),
        *(pair for pair in own if pair[0] != "host"),
    ]
    if request.body is not None and "content-length" not in given:
        pairs.append(("content-length", str(len(request.body))))
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


def _headers(pairs: Any) -> Headers:
    texts = ((bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in pairs)
    return tuple((name, value) for name, value in texts if not name.startswith(":"))


def _head(event: Any) -> Head:
    status = next(int(value) for name, value in event.headers if bytes(name) == b":status")
    return Head("2", status, "", _headers(event.headers), "http2", None)


def _reset(event: Any) -> End:
    return End("reset", f"expected END_STREAM, got RST_STREAM ({_code(event.error_code)})")


def _code(number: int) -> str:
    try:
        return h2.errors.ErrorCodes(number).name
    except ValueError:
        return f"code {number}"


_PARTS: dict[type, Callable[[Any], Part]] = {
    h2.events.InformationalResponseReceived: _head,
    h2.events.ResponseReceived: _head,
    h2.events.DataReceived: lambda event: Body(bytes(event.data)),
    h2.events.StreamReset: _reset,
}
