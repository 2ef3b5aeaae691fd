"""The demonstration app on sockets of this machine, under several servers, with TLS or without; and its clients."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from dataclasses import dataclass
from typing import Iterator

from servers import PATIENCE, TESTS
from uwsgi_process import GREENLETS, THREADS, UwsgiProcess

from flaskstream.lab.gunicorn import GunicornProcess

GTHREAD = ("--worker-class", "gthread", "--threads", "8")
OURS = "python:flaskstream.gunicorn_conf"
PLAIN = "apps/gunicorn_plain.py"
UWSGI = {"uwsgi": THREADS, "uwsgi_gevent": GREENLETS}


@dataclass(frozen=True)
class Listener:
    """Where a server listens on this machine; with TLS, if there is a file that vouches for its certificate."""

    port: int
    certificate: str = ""

    @classmethod
    def of(cls, url: str, certificate: str = "") -> Listener:
        return cls(int(url.rpartition(":")[2]), certificate)

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        if not self.certificate:
            return client
        try:
            return self.context.wrap_socket(client, server_hostname="127.0.0.1")
        except BaseException:
            client.close()
            raise

    def ask(self, model: str, more: bytes = b"") -> socket.socket:
        """Ask for an answer; return the connection. What is `more` follows the request at once."""
        client = self.connect()
        client.sendall(question(model))
        if more:
            client.sendall(more)
        return client


def question(model: str) -> bytes:
    body = json.dumps({"q": "hello", "model": model}).encode()
    head = f"POST /stream/chat HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


@contextlib.contextmanager
def listening(worker: str, upstream: str, certificate: str = "") -> Iterator[Listener]:
    """Serve the app under "gevent", "gthread" or one of `UWSGI`; the first two with TLS, if there is a certificate."""
    if worker in UWSGI:
        settings = {"FLASKSTREAM_UPSTREAM": upstream, "FLASKSTREAM_STORE": ""}  # as `GunicornProcess` has it
        with UwsgiProcess(*UWSGI[worker], settings=settings, module="flaskstream.app:create_app()") as uwsgi:
            yield Listener.of(uwsgi.url)
        return
    options = ("--certfile", certificate, "--keyfile", certificate) if certificate else ()
    arguments, config = (options, OURS) if worker == "gevent" else ((*GTHREAD, *options), PLAIN)
    with GunicornProcess({"upstream": upstream}, arguments, config=config, folder=TESTS) as process:
        yield Listener.of(process.url, certificate)
        assert "Traceback" not in process.errors()
