"""One request, made as a WSGI server makes it: the app is called, its body is read piece by piece, and closed."""

from __future__ import annotations

import io
import sys
from typing import Any
from urllib.parse import unquote_to_bytes

from flaskstream.doctor.check.boundary import place_of_error
from flaskstream.doctor.check.calls import read_refusal
from flaskstream.doctor.check.layers import Probe
from flaskstream.doctor.check.question import Question
from flaskstream.doctor.check.stage import Stage

PIECES_FOR_EACH = 64
"""A layer may cut a piece of the view into some more; a body that has so many times more is left."""


def environ_of(question: Question, codings: str | None) -> dict[str, Any]:
    """Return the environ of PEP 3333 for a request that offers these codings."""
    path, _, query = question.path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": question.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "RAW_URI": question.path,
        "REQUEST_URI": question.path,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": "50000",
        "HTTP_HOST": "127.0.0.1:8000",
        "HTTP_ACCEPT": "*/*",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(question.body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if question.body:
        environ["CONTENT_LENGTH"] = str(len(question.body))
        environ["CONTENT_TYPE"] = "application/x-www-form-urlencoded"
    for name, value in question.headers:
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    if codings:
        environ["HTTP_ACCEPT_ENCODING"] = codings
    return environ


def run_request(app: Probe, stage: Stage, question: Question, codings: str | None) -> None:
    """Make the request, and have it all written down; what the app raises is a finding."""
    stage.begin(codings)
    try:
        body = app(environ_of(question, codings), lambda status, headers, *exc_info: lambda piece: None)
        try:
            _read(body, question)
        finally:
            body.close()
    except BaseException as error:  # SystemExit too: the app's own, which ends a worker
        place, through = read_refusal(str(error))
        if place is not None:
            stage.log.say("guarded", place=place, through=through, phase="hooks", raised=True)
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        is_fatal = not isinstance(error, Exception)
        stage.log.say("raised", error=text, fatal=is_fatal, at=place_of_error(error))
    finally:
        stage.close_what_is_open()
        stage.tell_made_before()
        stage.log.say("over")


def _read(body: Any, question: Question) -> None:
    for count, _ in enumerate(body, 1):
        if count >= question.pieces * PIECES_FOR_EACH:
            break
