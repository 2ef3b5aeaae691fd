"""An app that tells how many tokens went the express way; the others have something between that changes every item."""

from __future__ import annotations

import os
import tempfile
import time

from flask import Flask, Response, jsonify

from flaskstream import Upstream, create_blueprint
from flaskstream.errors import StoreUnavailable
from flaskstream.express import Express
from flaskstream.stores.memory import MemoryStore

HEARTBEAT_SECONDS = 0.4
IDLE_SECONDS = 2.0
LONG_SECONDS = 20.0

_went = []
_go = Express.go


def _counted(self, item=None):
    goes_on = _go(self, item)
    _went.append(goes_on)
    return goes_on


def create_app(store=None, heartbeat=HEARTBEAT_SECONDS, **more):
    Express.go = _counted
    app = Flask(__name__)
    upstream = Upstream(os.environ["FLASKSTREAM_UPSTREAM"], idle_timeout=IDLE_SECONDS)
    app.register_blueprint(
        create_blueprint(upstream, store, debug=["model", "stats"], heartbeat=heartbeat, **more), url_prefix="/stream"
    )

    @app.route("/went")
    def went():
        return jsonify(sum(_went))

    return app


def create_patient():
    return create_app(heartbeat=0.9 * IDLE_SECONDS)


def create_recorded():
    return create_app("memory:")


class _Waiting(MemoryStore):
    """A store of one's own in this process whose calls wait, as those on a disk."""

    def append(self, batches, lease):
        time.sleep(0.002)
        return super().append(batches, lease)


def create_recorded_by_one_that_waits():
    return create_app(_Waiting())


class _Away(MemoryStore):
    def begin(self, new, lease):
        raise StoreUnavailable("away")


def create_unrecorded():
    return create_app(_Away(), LONG_SECONDS)


def create_recorded_for_long():
    return create_app("memory:", LONG_SECONDS, lease=4 * LONG_SECONDS)


def create_recorded_on_disk():
    folder = tempfile.TemporaryDirectory()
    app = create_app(f"sqlite:{folder.name}/streams.db")
    app.config["FOLDER"] = folder  # gone with the process
    return app


class _InCapitals:
    """A middleware that passes `start_response` on, and changes what comes."""

    def __init__(self, app):
        self._app = app

    def __call__(self, environ, start_response):
        items = self._app(environ, start_response)
        try:
            for item in items:
                yield item.upper()
        finally:
            getattr(items, "close", lambda: None)()


def create_wrapped():
    app = create_app()
    app.wsgi_app = _InCapitals(app.wsgi_app)
    return app


class _Encoding(Response):
    def iter_encoded(self):
        return (item.upper() for item in super().iter_encoded())


def create_encoding():
    app = create_app()
    app.response_class = _Encoding
    return app
