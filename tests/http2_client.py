"""A client of HTTP/2 that shows its connection: many streams on one, and what becomes of each, and when."""

from __future__ import annotations

import json
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import h2.config
import h2.connection
import h2.events
import hyperframe.frame
from leaving import PATIENCE
from relay_client import CHAT

from flaskstream.sse import Decoder, Event


@dataclass
class Answer:
    """What has come on one stream.

    Attributes:
        number: of the stream.
        headers: of the answer.
        events: when each came, in seconds of the monotonic clock, and the event.
        ended: "whole", or "reset" by the other side; None: not yet.
    """

    number: int
    headers: dict[str, str] = field(default_factory=dict)
    events: list[tuple[float, Event]] = field(default_factory=list)
    ended: str | None = None
    decoder: Decoder = field(default_factory=Decoder)

    @property
    def text(self) -> str:
        return "".join(event.json()["t"] for _, event in self.events if event.event == "message")

    @property
    def is_done(self) -> bool:
        return self.ended == "whole" and [event.event for _, event in self.events[-1:]] == ["done"]

    @property
    def arrivals(self) -> list[float]:
        """Of the tokens."""
        return [at for at, event in self.events if event.event == "message"]


class Http2Connection:
    """One connection over TLS. It reads while it is told to wait, and at no other time."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        tls.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._socket = tls.wrap_socket(plain, server_hostname="127.0.0.1")
        assert self._socket.selected_alpn_protocol() == "h2"
        self._host = f"127.0.0.1:{port}"
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self._answers: dict[int, Answer] = {}
        self._h2.initiate_connection()
        self._flush()

    def ask(self, model: str) -> Answer:
        """Ask `/chat`; the request is ended with its last bytes, as nearly all are."""
        body = json.dumps({"q": "hello", "model": model}).encode()
        answer = self.begin("POST", CHAT, length=len(body))
        self.say(answer, body, is_last=True)
        return answer

    def begin(self, method: str, path: str, length: int | None = None) -> Answer:
        """Send the head of a request; without a length it is the whole of it."""
        number = self._h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "https"), (":authority", self._host), (":path", path)]
        more = [] if length is None else [("content-type", "application/json"), ("content-length", str(length))]
        self._h2.send_headers(number, head + more, end_stream=length is None)
        self._flush()
        self._answers[number] = Answer(number)
        return self._answers[number]

    def say(self, answer: Answer, data: bytes, is_last: bool) -> None:
        """Send bytes of the request."""
        self._h2.send_data(answer.number, data, end_stream=is_last)
        self._flush()

    def reset(self, answer: Answer) -> None:
        """Give one stream up (RST_STREAM, CANCEL), as a browser does when its page aborts a fetch."""
        self._h2.reset_stream(answer.number, error_code=8)
        self._flush()

    def say_goodbye(self) -> None:
        """Announce that the connection will end (GOAWAY), and go on reading, which h2 by itself would not."""
        self._socket.sendall(hyperframe.frame.GoAwayFrame(0, last_stream_id=0).serialize())

    def wait_until(self, look: Callable[[], bool]) -> None:
        """Read until this is true."""
        while not look():
            data = self._socket.recv(65536)
            assert data, f"the connection ended, with {self._answers}"
            at = time.monotonic()
            for event in self._h2.receive_data(data):
                self._take(event, at)
            self._flush()

    def _take(self, event: Any, at: float) -> None:
        answer = self._answers.get(getattr(event, "stream_id", None) or 0)
        if answer is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            answer.headers = dict(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            answer.events += [(at, decoded) for decoded in answer.decoder.feed(event.data)]
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            answer.ended = "whole"
        elif isinstance(event, h2.events.StreamReset):
            answer.ended = "reset"

    def _flush(self) -> None:
        self._socket.sendall(self._h2.data_to_send())

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Http2Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
