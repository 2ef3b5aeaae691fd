"""The mistakes themselves, written as they are written in the wild. Each replaces one step of `lab.broken.Steps`."""

from __future__ import annotations

import queue
import threading
import time
import zlib
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator

from flaskstream.debug import DebugPrinter

if TYPE_CHECKING:
    from flask import Flask, Response

    from flaskstream.lab.broken import Steps
    from flaskstream.upstream import Upstream
    from flaskstream.upstream.answer import Answer


def nothing(steps: Steps) -> None:
    """Change no step: the mistake is a setting of gunicorn."""


def join_the_body(steps: Steps) -> None:
    def body(frames: Iterable[bytes]) -> list[bytes]:
        return [b"".join(frames)]

    steps.body = body


def ask_without_stream(steps: Steps) -> None:
    def ask(upstream: Upstream, path: str, payload: Any) -> Answer:
        return upstream.open(path, payload, stream=False)

    steps.ask = ask


def read_by_lines(steps: Steps) -> None:
    def read(answer: Answer) -> Iterator[bytes]:
        for line in answer.response.iter_lines():
            yield line + b"\n"

    steps.read = read


def read_the_body_in_a_hook(steps: Steps) -> None:
    def log_length(response: Response) -> Response:
        response.headers["X-Logged-Length"] = str(len(response.get_data()))
        return response

    steps.add_to_app.append(lambda app: app.after_request(log_length))


def compress_without_flush(steps: Steps) -> None:
    def wrap(app: Flask) -> None:
        app.wsgi_app = _GzipMiddleware(app.wsgi_app)  # type: ignore[method-assign]

    steps.add_to_app.append(wrap)


class _GzipMiddleware:
    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if "gzip" not in environ.get("HTTP_ACCEPT_ENCODING", ""):
            return self._app(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
            return start_response(status, [*kept, ("Content-Encoding", "gzip")], exc_info)

        return _gzipped(self._app(environ, start))


def _gzipped(body: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        for piece in body:
            compressed = compressor.compress(piece)  # and no flush: it gives nothing back for a long time
            if compressed:
                yield compressed
        yield compressor.flush()
    finally:
        getattr(body, "close", lambda: None)()


def collect_sentences(steps: Steps) -> None:
    def tokens(source: Iterator[str]) -> Iterator[str]:
        sentence = ""
        for token in source:
            sentence += token
            if sentence.rstrip().endswith((".", "!", "?")):
                yield sentence
                sentence = ""
        if sentence:
            yield sentence

    steps.tokens = tokens


def print_without_flush(steps: Steps) -> None:
    class Printer(DebugPrinter):
        def _print(self, line: str) -> None:
            print(line)  # noqa: T201 - and no flush=True

    steps.printer = Printer()


COMPUTING_SECONDS = 0.06
"""How long a token takes to compute, as with a small model on a CPU: longer than the next one takes to come."""


def compute_without_waiting(steps: Steps) -> None:
    def tokens(source: Iterator[str]) -> Iterator[str]:
        for token in source:
            _compute(COMPUTING_SECONDS)
            yield token

    steps.tokens = tokens
    steps.read = _what_is_there


def _what_is_there(answer: Answer) -> Iterator[bytes]:
    """Yield what has come as `requests` does: where something has, it waits for nobody. (The kit's reader does.)"""
    yield from answer.response.iter_content(chunk_size=None)


def _compute(seconds: float) -> int:
    """Keep the processor busy, as arithmetic in Python does: no other greenlet runs meanwhile."""
    total, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        total += sum(range(1000))
    return total


def swallow_the_error(steps: Steps) -> None:
    def tokens(source: Iterator[str]) -> Iterator[str]:
        try:
            yield from source
        except Exception:
            pass  # "it was only the connection"

    steps.tokens = tokens


def read_in_the_background(steps: Steps) -> None:
    def tokens(source: Iterator[str]) -> Iterator[str]:
        waiting: queue.Queue[str | None] = queue.Queue()

        def produce() -> None:
            try:
                for token in source:
                    waiting.put(token)
            finally:
                waiting.put(None)

        threading.Thread(target=produce, daemon=True).start()
        while True:
            token = waiting.get()
            if token is None:
                return
            yield token

    steps.tokens = tokens
