"""A blueprint with a store. Its users say who they are: `X-User`, and `X-Forbidden` for the app's no."""

from __future__ import annotations

import json
import os

from flask import Flask, request

from flaskstream import Upstream, create_blueprint
from flaskstream.stores.protocol import Retention


def create_app() -> Flask:
    app = Flask("recorded")
    told = json.loads(os.environ["FLASKSTREAM_MODEL"])  # a variable that gunicorn_conf lets through
    blueprint = create_blueprint(
        Upstream(os.environ["FLASKSTREAM_UPSTREAM"], retries=0),
        told.pop("store"),
        debug=True,
        owner=lambda: request.headers.get("X-User"),
        authorize=lambda stream: stream is None or "X-Forbidden" not in request.headers,
        retention=Retention(**told.pop("retention", {})),
        **told,
    )
    app.register_blueprint(blueprint, url_prefix="/stream")

    @app.after_request
    def tell_worker(response):  # which process has answered; it is the one that produces what it was asked to begin
        response.headers["X-Worker"] = str(os.getpid())
        return response

    return app
