"""The ways in which a client goes, and when the model saw the relay go after it."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from contextlib import closing, suppress
from typing import Any

from flaskstream.lab.processes import ModelProcess

PATIENCE = 10.0
"""Seconds that nothing here takes, unless the test fails."""


def fin(client: socket.socket) -> None:
    """Close; under TLS without its farewell, as most clients do."""
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def half_close(client: socket.socket) -> None:
    """Shut down the writing side of the connection below, and go on reading."""
    with closing(socket.socket(fileno=os.dup(client.fileno()))) as below:
        below.shutdown(socket.SHUT_WR)


def in_two_steps(client: socket.socket) -> None:
    """Shut down the writing side, take what comes for a moment, and only then close."""
    half_close(client)
    client.settimeout(0.02)
    with suppress(OSError):
        while client.recv(65536):
            pass
    client.close()


def farewell(client: socket.socket) -> None:
    """Say TLS's own farewell (close_notify), do not wait for the answer to it, and close."""
    assert isinstance(client, ssl.SSLSocket)
    client.setblocking(False)
    with suppress(ssl.SSLError):
        client.unwrap()
    client.close()


def read_until(client: Any, mark: bytes) -> bytes:
    seen = b""
    while mark not in seen:
        data = client.recv(65536)
        assert data, f"expected {mark!r}, got the end after {seen!r}"
        seen += data
    return seen


def wait_until_asked(model: ModelProcess, name: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not any((request["model"] or "").startswith(name + "?") for request in model.requests()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def left_at(model: ModelProcess, name: str) -> float:
    """Wait until the model has seen the relay go; return when it did, in seconds of the monotonic clock."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        (request,) = [request for request in model.requests() if (request["model"] or "").startswith(name + "?")]
        if request["ended"] is not None:
            assert request["ended"] == "peer_left"
            return float(request["peer_left_at"])
        time.sleep(0.01)
    raise AssertionError(f"the upstream is still open: {request}")
