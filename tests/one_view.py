"""One streaming view on a real socket, for tests of what a client sees of it."""

from __future__ import annotations

import contextlib
import re
import time

from flask import Flask

from flaskstream import event_stream
from flaskstream.testing import open_stream, serve

PATIENCE = 10  # seconds that no test needs, unless it fails


def app_of(view, *, debug=False, **options):
    """A Flask app with this view at `/`, made a stream."""
    app = Flask("one_view")
    app.debug = debug
    app.secret_key = "for tests"
    app.add_url_rule("/", "view", event_stream(**options)(view), methods=["GET", "POST"])
    return app


@contextlib.contextmanager
def streamed(view, *, method=None, headers=None, **options):
    """Serve the view as a stream with these options, and open it."""
    with opened(app_of(view, **options), method=method, headers=headers) as stream:
        yield stream


@contextlib.contextmanager
def opened(app, path="/", **client):
    """Serve the app and open one of its streams."""
    with serve(app) as server, open_stream(server.url + path, timeout=PATIENCE, **client) as stream:
        yield stream


def eventually(condition):
    """Wait for what another thread does, and tell whether it came."""
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def names_and_data(stream):
    """All events, each as (name, data)."""
    return [(timed.event.event, timed.event.data) for timed in stream]


def text_without_ids(stream):
    """The whole body as text, with the random ids taken out."""
    return re.sub(r"[0-9a-f]{16}", "ID", stream.text())
