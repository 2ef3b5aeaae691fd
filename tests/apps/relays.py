"""An app with a blueprint for each way of setting one up that the tests ask for; its name is the prefix."""

from __future__ import annotations

import os

from flask import Flask, request

from flaskstream import Upstream, create_blueprint
from flaskstream.settings import Settings

HEARTBEAT_SECONDS = 0.1
CONTENT_SECONDS = 1.0
MOST_BYTES = 100_000
NOWHERE = "http://127.0.0.1:9/v1"

settings = Settings.from_environment()


def _only_friends(stream):
    return request.headers.get("X-Friend") == "yes"


_BEATS = {"heartbeat": HEARTBEAT_SECONDS, "status_grace": 0.05}
SETUPS = {
    "plain": ({}, {}),
    "never_again": ({"retries": 0}, {}),
    "three_more": ({"retries": 3}, {}),
    "nowhere": ({"base_url": NOWHERE, "retries": 0}, {}),
    "away": ({"base_url": NOWHERE, "retries": 2}, {}),
    "impatient": ({"content_timeout": CONTENT_SECONDS}, {}),
    "beats": ({}, _BEATS),
    **{form: ({}, {**_BEATS, "heartbeat_form": form}) for form in ("comment", "block", "line", "ping")},
    "for_friends": ({}, {"authorize": _only_friends}),
    "one_at_most": ({}, {"max_streams": 1}),
    "small": ({}, {"max_body_bytes": MOST_BYTES}),
}
"""What an `Upstream` and a blueprint are given beside the defaults."""


def create_app(url=settings.upstream or NOWHERE, idle_timeout=settings.idle_timeout):
    app = Flask(__name__)
    for name, (asked, options) in SETUPS.items():
        upstream = Upstream(**{"base_url": url, "idle_timeout": idle_timeout, **asked})
        blueprint = create_blueprint(upstream, name=name, **{"debug": True, **options})
        app.register_blueprint(blueprint, url_prefix=f"/{name}")

    @app.route("/")
    def index():
        return "here"

    @app.route("/pid")
    def pid():
        return str(os.getpid())

    return app
