"""The probe, and routes beside it that have nothing to do with streams."""

from __future__ import annotations

import time
from typing import Iterator

from apps.hops import create_app as create_probe
from flask import Flask, Response, jsonify, request

PIECES = 20
INTERVAL = 0.05  # seconds between two pieces of the slow page

BROKEN = "/stream/broken"
"""A stream that breaks off."""
ASKED = "/stream/asked"
"""Tells how it was asked."""

PAGE = "<p>An ordinary page, which repeats itself, and so gains by being compressed.</p>\n" * 400


def create_app() -> Flask:
    app = create_probe()
    app.add_url_rule("/page", "page", lambda: PAGE)
    app.add_url_rule("/slow", "slow", lambda: Response(_slowly(), content_type="text/csv"))
    app.add_url_rule(BROKEN, "broken", lambda: Response(_breaks_off(), content_type="text/event-stream"))
    app.add_url_rule(ASKED, "asked", lambda: jsonify(url=request.full_path, headers=dict(request.headers)))
    return app


def _slowly() -> Iterator[str]:
    """A big export: nobody reads it as it comes."""
    for n in range(PIECES):
        yield f"{n},{'x' * 100}\n"
        time.sleep(INTERVAL)


def _breaks_off() -> Iterator[str]:
    yield "data: 1\n\n"
    time.sleep(INTERVAL)
    raise RuntimeError("as a view does that fails")
