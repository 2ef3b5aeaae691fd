"""gunicorn speaks TLS itself: the events come as they are made, and TLS's own farewell is understood.

That a client goes without one, as most do, is tested with the other ways to go: `test_client_goes.py`.
"""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any, Iterator

import pytest
from leaving import farewell, left_at, read_until
from listeners import Listener, listening, question
from servers import PATIENCE

from flaskstream.doctor.measure import Request, record
from flaskstream.lab.processes import ModelProcess

INTERVAL = 0.15  # seconds between two tokens
TOKENS = 12
SCRIPT = f"tokens={TOKENS}&interval_ms={INTERVAL * 1000:.0f}"


@pytest.fixture(scope="module", params=["gevent", "gthread"])
def server(request: Any, model: ModelProcess, certificate: str) -> Iterator[Listener]:
    with listening(request.param, model.url, certificate) as listener:
        yield listener


def test_tokens_come_one_by_one(server: Listener) -> None:
    url = f"https://127.0.0.1:{server.port}/stream/chat"
    body = question(f"one-by-one?{SCRIPT}").partition(b"\r\n\r\n")[2]
    asked = Request(url, "POST", (("Content-Type", "application/json"),), body, timeout=PATIENCE, tls=server.context)
    recording = record(asked)
    assert [timed.event.event for timed in recording.events] == ["message"] * TOKENS + ["done"]
    assert recording.ended == "final_chunk"
    *tokens, _ = [timed.at for timed in recording.events]
    gaps = sorted(later - earlier for earlier, later in zip(tokens, tokens[1:]))
    assert INTERVAL / 2 < gaps[len(gaps) // 2] < INTERVAL * 2


def test_the_upstream_is_left_when_a_client_takes_leave_by_the_rules(
    server: Listener, model: ModelProcess, request: Any
) -> None:
    name = f"leave-{request.node.callspec.id}"
    client = server.ask(f"{name}?interval_ms=50&silence_after=2")
    read_until(client, b"word")
    gone_at = time.monotonic()
    farewell(client)
    assert left_at(model, name) - gone_at < 1.0


def test_a_farewell_of_one_side_alone_ends_no_stream(server: Listener) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        client = HalfClosing(connection, server.context)
        client.send(question(f"half?{SCRIPT}"))
        client.say_farewell()
        assert read_until(client, b"event: done").count(b'{"t":') == TOKENS


class HalfClosing:
    """A client of TLS that can say its farewell and go on reading, which `ssl.SSLSocket` cannot."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self._connection = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self._until_done(self._tls.do_handshake)

    def send(self, data: bytes) -> None:
        self._tls.write(data)
        self._flush()

    def say_farewell(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        self._flush()

    def recv(self, size: int) -> bytes:
        return bytes(self._until_done(lambda: self._tls.read(size)))

    def _until_done(self, step: Any) -> Any:
        while True:
            try:
                result = step()
                self._flush()
                return result
            except ssl.SSLWantReadError:
                self._flush()
                self._incoming.write(self._connection.recv(65536))

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            self._connection.sendall(data)
