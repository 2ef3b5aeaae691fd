"""The app that the blocks of docs/security.md make, on a real socket in front of the embedded model."""

from __future__ import annotations

import contextlib

import pytest
from flask import session
from pages import Page

from flaskstream.testing import open_stream, serve

PAGE = Page("docs/security.md")
LOGIN, PROGRAMS, CORS, CSRF = PAGE.blocks("python")
ORIGIN = "https://chat.example.com"
API_KEY = "sk-of-the-page-0123456789"
MODEL = "secured?tokens=6&interval_ms=20"
QUESTION = {"q": "hello"}
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 100, "stream": True}
"""What the official clients ask; Anthropic's API wants a number of tokens."""


class Secured:
    """The app that runs.

    Attributes:
        url: of the blueprint.
        cookie: the header of somebody who is logged in.
        token: against forged requests, if there is one.
    """

    def __init__(self, server_url, model):
        self._model = model
        self.url = server_url + "/stream"
        with open_stream(server_url + "/login") as answer:
            self.cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
            self.token = answer.text()
        self._asked_before = len(model.requests())

    def ask(self, path="/chat", headers=(), **more):
        """Ask as somebody who is logged in, with more headers; a block that gives the answer."""
        return open_stream(self.url + path, headers={**self.cookie, **dict(headers)}, **more)

    @property
    def asked(self):
        """What the upstream was asked since the start."""
        return self._model.requests()[self._asked_before :]


@contextlib.contextmanager
def secured(model, *blocks, prepare=lambda app: None):
    """Serve the app of these blocks, after `prepare` has had it."""
    names = {"__name__": "app"}
    with _environment(SECRET_KEY="k", FLASKSTREAM_UPSTREAM=model.url, FLASKSTREAM_API_KEY=API_KEY):
        for block in blocks:
            exec(block, names)
    app = names["app"]
    names["upstream"].model = MODEL
    app.add_url_rule("/login", "login", login)
    prepare(app)
    with contextlib.closing(names["upstream"]), serve(app) as server:
        yield Secured(server.url, model)


def login():
    session["user_id"] = 1
    try:
        from flask_wtf.csrf import generate_csrf
    except ImportError:
        return ""
    return generate_csrf()


@contextlib.contextmanager
def _environment(**values):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


def whole(stream):
    """Read a whole answer, and tell that it came token by token."""
    *tokens, end = stream
    assert end.event.event == "done" and len(tokens) > 1
    assert tokens[-1].at - tokens[0].at > 0.04  # seconds, of the 0.1 that the model takes
    return True
