"""The native `EventSource` of Chromium, without a window, on a real server that sends our pieces one by one."""

from __future__ import annotations

import json
import pathlib
import queue
import shutil
import subprocess
import tempfile
import time
from typing import Any, Callable, Iterator, Sequence

from flask import Flask, Response, jsonify, request

from decoders import ours
from decoders.reading import Case, Readings, answered
from flaskstream.lab.processes import end
from flaskstream.testing import serve

BROWSERS = ("chromium", "chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",  # which root may not have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--password-store=basic",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # it is to talk to 127.0.0.1 and to nobody else
)
PAUSE = 0.0002  # seconds after a piece, so that the next one seldom arrives together with it
PATIENCE = 60  # seconds that the browser does not need, unless something is wrong

PAGE = pathlib.Path(__file__).with_suffix(".html")


def _browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def missing() -> str | None:
    return None if _browser() else "there is no chromium here"


def read_all(cases: Sequence[Case]) -> Readings:
    told: queue.Queue[Any] = queue.Queue()
    with serve(_app(cases, told.put)) as server, tempfile.TemporaryFile() as log:
        profile = tempfile.mkdtemp()
        command = [str(_browser()), *FLAGS, f"--user-data-dir={profile}", server.url]
        browser = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            answers = told.get(timeout=PATIENCE)
        except queue.Empty:
            log.seek(0)
            raise AssertionError(f"expected readings from the browser, got none; it said {log.read()!r}") from None
        finally:
            end(browser)
            shutil.rmtree(profile, ignore_errors=True)  # a child of it may still be writing its last words
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
