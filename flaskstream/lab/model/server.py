"""The embedded model's HTTP server: what it is asked, and how it plays its answers.

It plays them (`flaskstream.lab.model.answer`) byte by byte: it writes the head and the framing itself, one
write for each step, on a schedule of the monotonic clock, so that a late step never delays the next.
One thread a connection: a model of the lab serves a hundred streams, not ten thousand.

    POST /v1/chat/completions    the answer of the script in `model`, as OpenAI says it
    POST /v1/messages            the same as Anthropic says it
    GET /v1/models
    GET, DELETE /requests        what came and what became of it (`flaskstream.lab.model.log`); not logged itself

The path of a dialect is also there without `/v1`: clients differ in what they take for a base URL. No key is asked for.
An answer's `X-Request-Id: req-7` (Anthropic: `request-id`) names its entry in the log.
"""

from __future__ import annotations

import json
import socketserver
import ssl
import sys
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable

from flaskstream.lab.model.answer import Answer, answer, for_client
from flaskstream.lab.model.dialects import CREATED, DIALECTS, OPENAI, Dialect, to_json
from flaskstream.lab.model.log import Request, RequestLog
from flaskstream.lab.model.peer import PATIENCE_SECONDS, Peer, PeerLeft
from flaskstream.lab.model.script import Script

MAX_BODY_BYTES = 10 * 1024 * 1024
"""The largest request that is read: a long conversation with a picture in it."""

_REFUSED_BODY_SECONDS = 2.0  # how long a client may go on sending a body that was refused


class _BadRequest(Exception):
    """The client's fault; the answer is this status and this message."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


class ModelServer(socketserver.ThreadingTCPServer):
    """The listening server: it is bound when this returns, and `serve_forever` runs it.

    Args:
        address: host and port; port 0: a free one.
        default: the script of a request whose model has no query string.
        tls: listen with TLS, with this certificate.
    """

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False  # a silent stream would wait for its client
    request_queue_size = 1024  # a hundred clients come in one instant

    def __init__(self, address: tuple[str, int], default: Script, tls: ssl.SSLContext | None = None) -> None:
        self.default = default
        self.log = RequestLog()
        self._tls = tls
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """The base URL for an OpenAI client; Anthropic's is the same without `/v1`."""
        host, port = self.server_address[:2]
        return f"{'https' if self._tls else 'http'}://{host!s}:{port}/v1"

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection. Its TLS handshake comes with the first read: in its own thread, not in this one."""
        connection, address = super().get_request()
        if self._tls:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback, unless a client merely went away, or did not like the certificate."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = PATIENCE_SECONDS

    def _route(self) -> None:
        if self.request_version == "HTTP/1.0":
            self.close_connection = True
        path = self.path.partition("?")[0]
        if (self.command, path) in _UNLOGGED:
            self._answer_json(200, _UNLOGGED[self.command, path](self.server))
            return
        request = self.server.log.open(self.command, self.path, self._lower_case_headers())
        dialect = _DIALECT_OF.get(path)
        try:
            if dialect and self.command == "POST":
                self._complete(request, dialect)
            elif (self.command, path) == ("GET", "/v1/models"):
                self._list_models(request)
            else:
                raise _BadRequest(404, f"Unknown request URL: {self.command} {path}.")
        except _BadRequest as error:
            self._refuse(request, error, dialect or OPENAI)
        except PeerLeft as left:
            self.server.log.end(request, "peer_left", peer_left_at=left.seen_at)
            self.close_connection = True

    do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = do_OPTIONS = do_HEAD = _route

    def _lower_case_headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            name = name.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return headers

    def _complete(self, request: Request, dialect: Dialect) -> None:
        wanted = self._read_json()
        model = wanted.get("model", self.server.default.name)
        self.server.log.note(request, model=model if isinstance(model, str) else None)
        for name, (kind, words) in dialect.needed.items():
            if not isinstance(wanted.get(name), kind):
                raise _BadRequest(400, f"{name}: expected {words}.", name)
        try:
            script = for_client(
                self._script(model),
                accept_encoding=request.headers.get("accept-encoding", ""),
                http10=self.request_version == "HTTP/1.0",
                usage=_asks_for_usage(wanted),
            )
            planned = answer(script, bool(wanted.get("stream")), dialect)
        except ValueError as error:
            raise _BadRequest(400, str(error), "model") from error
        self.server.log.note(request, tokens_total=script.length)
        self._play(planned, request, (dialect.id_header, f"req-{request.id}"))

    def _script(self, model: object) -> Script:
        if not isinstance(model, str):
            raise ValueError(f"model: expected a text, got {model!r}")
        return Script.parse(model) if "?" in model else replace(self.server.default, name=model)

    def _list_models(self, request: Request) -> None:
        name = self.server.default.name
        model = {"id": name, "object": "model", "created": CREATED, "owned_by": "flaskstream"}
        self.server.log.end(request, "complete")
        self._answer_json(200, {"object": "list", "data": [model]})

    def _play(self, planned: Answer, request: Request, identity: tuple[str, str]) -> None:
        """Write the answer, and note each thing before its bytes go: who has seen them finds it in the log."""
        peer, log, said = Peer(self.connection), self.server.log, 0
        try:
            peer.wait(request.started_at + planned.head_after)
            closes = self.close_connection and planned.end == "keep"
            peer.send(planned.head(identity, *([("Connection", "close")] if closes else [])))
            start = time.monotonic()
            for step in planned.steps:
                peer.wait(start + step.after)
                log.note(request, sent_tokens=step.tokens)
                if planned.end == "keep" and step is planned.steps[-1]:
                    log.end(request, "complete")
                if step.data:
                    peer.send(step.data)
                said = step.tokens
            peer.wait(start + planned.end_after)
            if planned.end == "reset":
                peer.wait_until_taken()
        except PeerLeft:
            log.note(request, sent_tokens=said)
            raise
        if planned.end != "keep":
            log.end(request, "scripted" if planned.scripted else "complete")
            self._end_connection(peer, planned.end)

    def _end_connection(self, peer: Peer, end: str) -> None:
        self.close_connection = True
        if end == "reset":
            # Closed here, since the server would send a FIN first; the reader holds the socket open as well.
            peer.reset_on_close()
            self.rfile.close()
            self.connection.close()

    def _read_json(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not (length.isdecimal() and length.isascii()):
            raise _BadRequest(411, f"Content-Length: expected a number of bytes, got {length!r}.")
        if int(length) > MAX_BODY_BYTES:
            raise _BadRequest(413, f"The body: expected at most {MAX_BODY_BYTES} bytes, got {length}.")
        body = self._read_body(int(length))
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _BadRequest(400, f"The body: expected JSON, got {len(body)} bytes that are none.") from error
        if not isinstance(value, dict):
            raise _BadRequest(400, "The body: expected a JSON object.")
        return value

    def _read_body(self, length: int) -> bytes:
        try:
            body = self.rfile.read(length)
        except OSError as error:
            raise PeerLeft from error
        if len(body) < length:
            raise PeerLeft
        return body

    def _refuse(self, request: Request, error: _BadRequest, dialect: Dialect) -> None:
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        unread = has_body and error.status != 400
        self.close_connection = self.close_connection or unread
        self.server.log.end(request, "complete")
        self._answer_json(error.status, dialect.error(error.status, str(error), error.param))
        if unread:
            Peer(self.connection).say_no_more(_REFUSED_BODY_SECONDS)

    def _answer_json(self, status: int, value: object) -> None:
        body = to_json(value)
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the standard library cannot read, in the same form as all other errors."""
        self.close_connection = True
        self.request_version = self.protocol_version  # a line without a version is no HTTP/0.9 to us
        self._answer_json(code, OPENAI.error(code, message or "The request was not understood.", None))

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: `GET /requests` tells more."""


_DIALECT_OF = {f"{base}/{dialect.path}": dialect for dialect in DIALECTS.values() for base in ("", "/v1")}
_UNLOGGED: dict[tuple[str, str], Callable[[ModelServer], object]] = {
    ("GET", "/requests"): lambda server: server.log.as_json(),
    ("DELETE", "/requests"): lambda server: {"forgotten": server.log.clear()},
}


def _asks_for_usage(wanted: dict[str, Any]) -> bool:
    options = wanted.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))
