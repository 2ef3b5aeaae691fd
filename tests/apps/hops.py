"""The probe in an app, with something wrapped around it that holds it, as middleware in the wild does.

gunicorn serves `apps.hops:create_app('joined')`; the names are those of `WRAPPERS`.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from typing import Any, Callable, Iterable, Iterator

from flask import Flask

from flaskstream import create_blueprint
from flaskstream.upstream import Upstream

Body = Iterable[bytes]

PROBE = "/stream/probe"


def create_app(wrapper: str = "") -> Flask:
    """Return an app with the probe, in this wrapper."""
    app = Flask(__name__)
    # Nobody asks this upstream: the probe makes its ticks itself.
    app.register_blueprint(create_blueprint(Upstream("http://127.0.0.1:9/v1"), debug=["probe"]), url_prefix="/stream")
    app.add_url_rule("/", "index", lambda: "")
    if wrapper:
        app.wsgi_app = WRAPPERS[wrapper](app.wsgi_app)  # type: ignore[method-assign]
    return app


class BodyWrapper:
    """A middleware that makes another body of each streamed one.

    Args:
        app: inside of it.
        make: returns the other body.
        coding: it is then in this one; only for clients that accept it.
        types: the content types that it touches, as beginnings.
    """

    def __init__(
        self,
        app: Any,
        make: Callable[[Body], Body],
        coding: str = "",
        types: tuple[str, ...] = ("text/", "application/x"),
    ) -> None:
        self._app, self._make, self._coding, self._types = app, make, coding, types

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Body:
        if self._coding not in environ.get("HTTP_ACCEPT_ENCODING", ""):
            return self._app(environ, start_response)
        is_ours = []

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            kind = next((value for name, value in headers if name.lower() == "content-type"), "")
            is_ours.append(kind.startswith(self._types))
            more = [("Content-Encoding", self._coding)] if self._coding and is_ours[0] else []
            return start_response(status, [*headers, *more], exc_info)

        body = self._app(environ, start)
        return closing_body(self._make(body), body) if is_ours and is_ours[0] else body


def closing_body(made: Body, body: Any) -> Iterator[bytes]:
    try:
        yield from made
    finally:
        if hasattr(body, "close"):
            body.close()


def joined(body: Body) -> Body:
    yield b"".join(body)


class JoinedWithLength:
    """Reads the whole body, and says how long it is."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Body:
        begun = []
        body = self._app(environ, lambda *arguments: begun.append(arguments))
        whole = b"".join(closing_body(body, body))
        status, headers = begun[0][:2]
        others = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start_response(status, [*others, ("Content-Length", str(len(whole)))])
        return [whole]


def compressed(compressor: Any, flush: Callable[[Any], bytes] = lambda compressor: b"") -> Callable[[Body], Body]:
    def make(body: Body) -> Body:
        engine = compressor()
        for piece in body:
            yield engine.compress(piece) + flush(engine)
        yield engine.finish() if hasattr(engine, "finish") else engine.flush()

    return make


def gzip_engine() -> Any:
    return zlib.compressobj(wbits=16 + zlib.MAX_WBITS)


class Brotli:
    def __init__(self) -> None:
        import brotli

        self._engine = brotli.Compressor()
        self.flush = self._engine.flush

    def compress(self, data: bytes) -> bytes:
        return bytes(self._engine.process(data))

    def finish(self) -> bytes:
        return bytes(self._engine.finish())


def zstd_engine() -> Any:
    import zstandard

    return zstandard.ZstdCompressor().compressobj()


def batches_of_10_events(body: Body) -> Body:
    held = b""
    for piece in body:
        held += piece
        if held.count(b"\n\n") >= 10:
            yield held
            held = b""
    yield held


def batches_of_500_ms(body: Body) -> Body:
    """Collects until half a second is over, looking at the clock when something comes."""
    held, since = b"", time.monotonic()
    for piece in body:
        held += piece
        if time.monotonic() - since >= 0.5:
            yield held
            held, since = b"", time.monotonic()
    yield held


def blocks_of_1_kb(body: Body) -> Body:
    held = b""
    for piece in body:
        held += piece
        while len(held) >= 1024:
            yield held[:1024]
            held = held[1024:]
    yield held


def byte_by_byte(body: Body) -> Body:
    """Slow in another way: nothing waits."""
    for piece in body:
        for n in range(len(piece)):
            yield piece[n : n + 1]


class Replaying:
    """A cache that knows nothing of streams: what was whole once is given to everybody."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._kept: tuple[Any, list[bytes]] | None = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Body:
        if "ask=" in environ.get("QUERY_STRING", "") or environ.get("PATH_INFO") != PROBE:
            return self._app(environ, start_response)
        if self._kept:
            start_response(*self._kept[0])
            return self._kept[1]
        begun: list[Any] = []

        def start(*arguments: Any) -> Any:
            begun.append(arguments[:2])
            return start_response(*arguments)

        return self._keeping(self._app(environ, start), begun)

    def _keeping(self, body: Any, begun: list[Any]) -> Body:
        pieces = []
        try:
            for piece in body:
                pieces.append(piece)
                yield piece
            self._kept = (begun[0], pieces)
        finally:
            if hasattr(body, "close"):
                body.close()


class BlockedHub:
    """Something else in the process computes for half a second now and then, and lets no greenlet run."""

    def __init__(self, app: Any, seconds: float = 0.5, every: float = 1.0) -> None:
        self._app, self._seconds, self._every = app, seconds, every
        self._begun = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Body:
        if not self._begun.is_set():
            self._begun.set()
            threading.Thread(target=self._burn, daemon=True).start()
        return self._app(environ, start_response)

    def _burn(self) -> None:
        while True:
            time.sleep(self._every - self._seconds)
            end = time.perf_counter() + self._seconds
            while time.perf_counter() < end:
                json.dumps(list(range(100)))


class Transformable:
    """Takes no-transform away, as an app does that knows nothing of it: then compressors outside of it may bite."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Body:
        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            kept = [(name, value) for name, value in headers if name.lower() != "cache-control"]
            return start_response(status, kept, exc_info)

        body: Body = self._app(environ, start)
        return body


class NoStream:
    """Answers everything with a page, as a login in front of an app does."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Body:
        start_response("200 OK", [("Content-Type", "text/html")])
        return [b"<title>Please log in</title>"]


def wrapper(make: Callable[[Body], Body], coding: str = "", **more: Any) -> Callable[[Any], Any]:
    return lambda app: BodyWrapper(app, make, coding, **more)


def sync_flush(engine: Any) -> bytes:
    return bytes(engine.flush(zlib.Z_SYNC_FLUSH))


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "joined": wrapper(joined),
    "joined-with-length": JoinedWithLength,
    "gzip": wrapper(compressed(gzip_engine), "gzip"),
    "gzip-flushed": wrapper(compressed(gzip_engine, sync_flush), "gzip"),
    "br": wrapper(compressed(Brotli), "br"),
    "br-flushed": wrapper(compressed(Brotli, lambda engine: engine.flush()), "br"),
    "zstd": wrapper(compressed(zstd_engine), "zstd"),
    "batches-of-10": wrapper(batches_of_10_events),
    "batches-of-500-ms": wrapper(batches_of_500_ms),
    "blocks-of-1-kb": wrapper(blocks_of_1_kb),
    "byte-by-byte": wrapper(byte_by_byte),
    "plain-only": wrapper(joined, types=("text/plain",)),
    "replaying": Replaying,
    "blocked-hub": BlockedHub,
    "transformable": Transformable,
    "no-stream": NoStream,
}
