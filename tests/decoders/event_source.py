"""The native `EventSource` of Chromium, without a window, on a real server that sends our pieces one by one."""

from __future__ import annotations

import json
import pathlib
import queue
import time
from typing import Any, Callable, Iterator, Sequence

from browser import PATIENCE, missing, opened
from flask import Flask, Response, jsonify, request

from decoders import ours
from decoders.reading import Case, Readings, answered
from flaskstream.testing import serve

PAUSE = 0.0002  # seconds after a piece, so that the next one seldom arrives together with it

__all__ = ["missing", "read_all"]

PAGE = pathlib.Path(__file__).with_suffix(".html")


def read_all(cases: Sequence[Case]) -> Readings:
    told: queue.Queue[Any] = queue.Queue()
    with serve(_app(cases, told.put)) as server, opened(server.url) as log:
        try:
            answers = told.get(timeout=PATIENCE)
        except queue.Empty:
            log.seek(0)
            raise AssertionError(f"expected readings from the browser, got none; it said {log.read()!r}") from None
    assert isinstance(answers, list), answers  # or a text: what went wrong in the page
    return answered(cases, answers)


def _app(cases: Sequence[Case], tell: Callable[[Any], None]) -> Flask:
    app = Flask("streams")
    streams = [
        {"path": f"/streams/{n}/{cutting}", "names": _names(case.stream)}
        for n, case in enumerate(cases)
        for cutting in case.cuttings
    ]

    @app.route("/")
    def page() -> str:
        return PAGE.read_text("utf-8")

    @app.route("/streams")
    def everything() -> Response:
        return jsonify(streams)

    @app.route("/streams/<int:n>/<cutting>")
    def stream(n: int, cutting: str) -> Response:
        return Response(_played(cases[n].pieces(cutting)), mimetype="text/event-stream")

    @app.route("/readings", methods=["POST"])
    def take() -> str:
        tell(json.loads(request.get_data()))
        return ""

    return app


def _names(stream: bytes) -> list[str]:
    """A page is told only of events whose names it has asked for."""
    return sorted({event.event for event in ours.read(stream, tells_last_id=True).events})


def _played(pieces: list[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        time.sleep(PAUSE)
