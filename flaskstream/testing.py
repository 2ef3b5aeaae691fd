"""Test a stream as its clients see it: over a real socket, event by event, with the time of each.

Flask's own test client joins the body: it passes when nothing streams, and hangs when a stream never ends.
Here the app is served on a free port, and the stream is read as it comes:

    import itertools, threading, time
    from flask import Flask, Response
    from flaskstream.testing import open_stream, serve

    def test_ticks_come_one_by_one_and_the_view_is_closed():
        app = Flask(__name__)
        closed = threading.Event()

        @app.route("/ticks")
        def ticks():
            def body():
                try:
                    for n in itertools.count():
                        yield f"data: {n}\\n\\n"
                        time.sleep(0.1)
                finally:
                    closed.set()

            return Response(body(), mimetype="text/event-stream")

        with serve(app) as server, open_stream(server.url + "/ticks") as stream:
            first, second, third = stream.take(3)
            assert stream.headers["Content-Type"].startswith("text/event-stream")
            assert [first.event.data, second.event.data, third.event.data] == ["0", "1", "2"]
            assert third.at - first.at > 0.1  # they did not come in one lump
        assert closed.wait(5)

An app that many tests share is served by a fixture:

    @pytest.fixture(scope="session")
    def server():
        with serve(create_app()) as server:
            yield server
"""

from __future__ import annotations

import contextlib
import itertools
import json as json_module
import socket
import threading
import time
from dataclasses import dataclass
from http.server import HTTPServer
from typing import Any, Callable, Iterable, Iterator, Mapping

from werkzeug.datastructures import Headers
from werkzeug.http import parse_options_header
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from flaskstream.doctor.measure import Exchange, Request, Timed, TimedComment, open_exchange
from flaskstream.errors import FlaskStreamError

__all__ = ["RequestStuck", "Server", "Stream", "StreamBroken", "Timed", "TimedComment", "open_stream", "serve"]

WSGIApp = Callable[[Any, Any], Iterable[bytes]]


class StreamBroken(FlaskStreamError):
    """There was no answer, or it did not end well, or not in time. Says after how many events, and how.

    Attributes:
        ended: how the connection ended, in the words of `flaskstream.doctor.measure.Exchange.ended`.
    """

    def __init__(self, message: str, ended: str) -> None:
        super().__init__(message)
        self.ended = ended


class RequestStuck(FlaskStreamError):
    """The server was stopped, its clients are gone, and a view still runs. Names the requests."""


@dataclass(frozen=True)
class Server:
    """A server that runs. `url` has no slash at its end: `http://127.0.0.1:PORT`."""

    url: str


@contextlib.contextmanager
def serve(app: WSGIApp, join_timeout: float = 5.0) -> Iterator[Server]:
    """Serve a WSGI app on a free port of this machine, each request in its own thread, while the block runs.

    It is Werkzeug's development server: HTTP/1.1 with chunks since Werkzeug 2.1; before, HTTP/1.0, where a body
    that was cut looks whole. At the end connections that are still open are shut, so that a view which still
    streams fails at its next write, and is closed.

    Args:
        app: a Flask app, or any other.
        join_timeout: seconds that the requests have, all together, to end after that.

    Raises:
        RequestStuck: one did not.
    """
    server = _Server(app)
    thread = threading.Thread(target=server.run, name="flaskstream.testing.serve", daemon=True)
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        stuck = server.end_requests(time.monotonic() + join_timeout)
    if stuck:  # not inside `finally`: what the block raised matters more
        raise RequestStuck(f"expected every request to end within {join_timeout} s, got {', '.join(stuck)} running")


class _Handler(WSGIRequestHandler):
    disable_nagle_algorithm = True  # a chunk is several writes: none may wait for the ACK of the one before

    def run_wsgi(self) -> None:
        threading.current_thread().name = f"{self.command} {self.path}"
        super().run_wsgi()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing: a test's output is for what went wrong."""


class _Server(ThreadedWSGIServer):
    """Knows its requests: what to shut at the end, and whom to wait for."""

    def __init__(self, app: WSGIApp) -> None:
        super().__init__("127.0.0.1", 0, app, _Handler)
        self._requests: dict[Any, threading.Thread] = {}

    def run(self) -> None:
        # Not Werkzeug's own: old ones take no interval, and half a second at the end of every test is long.
        HTTPServer.serve_forever(self, poll_interval=0.02)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._requests[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._requests.pop(request, None)

    def end_requests(self, deadline: float) -> list[str]:
        """Shut the connections, wait for the threads, and return the names of those that still run."""
        requests = list(self._requests.items())
        for connection, _ in requests:
            with contextlib.suppress(OSError):  # it ended by itself
                connection.shutdown(socket.SHUT_RDWR)
        for _, thread in requests:
            thread.join(max(0.0, deadline - time.monotonic()))
        return [thread.name for _, thread in requests if thread.is_alive()]


@contextlib.contextmanager
def open_stream(
    url: str,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
    json: Any = None,
    timeout: float = 10.0,
    max_seconds: float = 60.0,
) -> Iterator[Stream]:
    """Send a request, wait for the head of its answer, and leave when the block is left.

    Args:
        url: http or https, percent-encoded.
        method: GET if it is left out, or POST with `json`.
        headers: sent as they are; beside them only Host, Content-Length and, with `json`, Content-Type.
        json: the body, if not `None`.
        timeout: seconds without a byte after which the test fails instead of hanging.
        max_seconds: the same for the whole stream, however alive: for the one that was to end and does not.

    Raises:
        StreamBroken: no answer came.
        InvalidSetting: the request cannot be written.
    """
    pairs = dict(headers or {})
    body = None
    if json is not None:
        body = json_module.dumps(json).encode()
        pairs.setdefault("Content-Type", "application/json")
    request = Request(
        url,
        method=method or ("GET" if body is None else "POST"),
        headers=tuple(pairs.items()),
        body=body,
        timeout=timeout,
        max_seconds=max_seconds,
    )
    with open_exchange(request) as exchange:
        yield Stream(exchange)


class Stream:
    """An answer as it comes; `open_stream` makes it. Iterate over it for its events.

    A stream that breaks raises `StreamBroken`, after the events before it: silence longer than the timeout, a
    reset, an end that is not the end of the body, an event without its blank line. (What Werkzeug older than
    2.1 serves is HTTP/1.0: there the end of a body cannot be told from a cut.)

    Attributes:
        status: such as 200.
        headers: of the response; names in any case, values in order.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._count = 0
        if exchange.status is None:
            raise StreamBroken(f"{exchange.request.url}: {exchange.error}", exchange.ended or "")
        self.status = exchange.status
        self.headers = Headers(list(exchange.headers))

    @property
    def comments(self) -> list[TimedComment]:
        """The comments so far (heartbeats are comments), with their times."""
        return [TimedComment(self._since_sent(comment.at), comment.text) for comment in self._exchange.comments]

    @property
    def ended(self) -> str | None:
        """How the connection ended, in the words of `flaskstream.doctor.measure.Exchange.ended`; `None`: not yet."""
        return self._exchange.ended

    def __iter__(self) -> Iterator[Timed]:
        """Give each event when it comes; `at` is in seconds since the request was sent."""
        for timed in self._exchange.events():
            self._count += 1
            yield Timed(self._since_sent(timed.at), timed.event)
        self._check_end()
        if self._exchange.cut_inside_event:
            raise self._broken("expected a blank line after the last event, got the end")

    def take(self, count: int) -> list[Timed]:
        """Return the next events, so many, as soon as they are here; fewer if the stream ended before."""
        return list(itertools.islice(self, count))

    def text(self) -> str:
        """Read to the end and return the whole body as text: for an answer that is no event stream."""
        for _ in self._exchange.chunks():
            pass
        self._check_end()
        _, options = parse_options_header(self.headers.get("Content-Type", ""))
        body = b"".join(piece.data for piece in self._exchange.pieces)
        return body.decode(options.get("charset", "utf-8"), "replace")

    def json(self) -> Any:
        """Read to the end and return the whole body, parsed as JSON. Raises `ValueError` if it is none."""
        return json_module.loads(self.text())

    def close(self) -> None:
        """Leave, as a client that closes its tab. The rest is not read."""
        self._exchange.leave()

    def _since_sent(self, at: float) -> float:
        return at - self._exchange.sent_at

    def _check_end(self) -> None:
        if self._exchange.error:
            raise self._broken(self._exchange.error)

    def _broken(self, what: str) -> StreamBroken:
        return StreamBroken(f"after {self._count} events: {what}", self._exchange.ended or "")
