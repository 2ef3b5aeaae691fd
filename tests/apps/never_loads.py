"""For `flaskstream check`: an app that waits while it is imported, in the way that the environment names."""

from __future__ import annotations

import os
import time

from flask import Flask

app = Flask(__name__)


def create_app(config=None):
    return app


def create_named_app(name):
    return Flask(name)


def waits():
    while True:
        time.sleep(0.1)  # waits


if os.environ.get("NEVER_LOADS") == "serves":
    app.run(port=0)  # serves
elif os.environ.get("NEVER_LOADS"):
    waits()
