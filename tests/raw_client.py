"""A client that knows sockets and nothing else: what came, byte by byte, when, and how it ended."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

DEADLINE_SECONDS = 30.0

TOKEN = b'"},"finish_reason":null}]}\n\n'
"""Ends every token of the embedded model, and its first chunk, which names the role."""
ROLE = 1


class Connection:
    """One TCP connection. `reads` are (seconds of the monotonic clock, bytes) as they came."""

    def __init__(self, url, receive_bytes=None):
        where = urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(DEADLINE_SECONDS)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect((where.hostname, where.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reads = []
        self.ended = None  # "fin" or "reset"
        self.ended_at = None
        self.sent_at = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.sent_at = time.monotonic()
        self.socket.sendall(data)

    def read(self):
        """Read once; False at the end."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data, self.ended = b"", "reset"
        at = time.monotonic()
        if data:
            self.reads.append((at, data))
            return True
        self.ended = self.ended or "fin"
        self.ended_at = at
        return False

    def read_to_end(self):
        while self.read():
            pass
        return self

    def read_until(self, mark):
        while mark not in self.received:
            assert self.read(), f"{mark!r} never came, but {self.received!r}"
        return self

    @property
    def received(self):
        return b"".join(data for _, data in self.reads)

    @property
    def head(self):
        return self.received.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    @property
    def raw_body(self):
        return self.received.partition(b"\r\n\r\n")[2]

    def arrival(self, mark, count=1):
        """When the so-and-so-manieth occurrence of these bytes was whole here."""
        received = b""
        for at, data in self.reads:
            received += data
            if received.count(mark) >= count:
                return at
        raise AssertionError(f"{count} times {mark!r} never came")


def request(method, path, body=b"", headers=(), version="HTTP/1.1"):
    lines = [f"{method} {path} {version}", "Host: model", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def chat(model, *headers, stream=True, version="HTTP/1.1", path="/v1/chat/completions", **more):
    """The bytes of a request for an answer; `Connection: close`, so that the answer ends with the connection."""
    wanted = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}], **more}
    headers = headers or ("Connection: close",)
    return request("POST", path, json.dumps(wanted).encode(), headers, version)


def ask(url, model, *headers, **more):
    """Ask, read to the end of the connection, and return it closed."""
    with Connection(url) as connection:
        connection.send(chat(model, *headers, **more))
        return connection.read_to_end()


def chunks_of(raw):
    """The chunks of a chunked body, and the bytes that follow the last whole one."""
    chunks = []
    while raw:
        size, crlf, rest = raw.partition(b"\r\n")
        length = int(size, 16) if crlf else 0
        if not crlf or len(rest) < length + 2:
            break
        assert rest[length : length + 2] == b"\r\n"
        chunks.append(rest[:length])
        raw = rest[length + 2 :]
    return chunks, raw


def read_tokens(connection, count):
    """Read from the embedded model until so many tokens are here."""
    while connection.received.count(TOKEN) < count + ROLE:
        assert connection.read()


def logged(model, value, key="model"):
    """What the log of a `ModelProcess` says of the last request with this model, when it has ended."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        found = [entry for entry in model.requests() if entry[key] == value]
        if found and found[-1]["ended"]:
            return found[-1]
        time.sleep(0.01)
    raise AssertionError(f"no request with {key} {value!r} ended: {model.requests()}")
