"""What the two gunicorns serve: the demonstration, told of the other servers, or let be read by the page."""

from __future__ import annotations

from flask import Flask, Response

from flaskstream.app import create_app
from flaskstream.compare_page import BESIDE, Beside


def fixed(broken: str, desk: str) -> Flask:
    """Return the app of the fixed mode, whose page asks the servers at these origins."""
    app = create_app()
    app.config[BESIDE] = Beside(broken, desk)
    return app


def readable(page: str) -> Flask:
    """Return the app of the environment, the broken mode's, with answers that a page of this one origin may read.

    It has no preflight: the page asks by GET and sends no header that needs one.
    """
    app = create_app()
    allow(app, page)
    return app


def allow(app: Flask, origin: str) -> None:
    """Let pages of the origin read all answers of the app. https://fetch.spec.whatwg.org/#http-cors-protocol"""

    @app.after_request
    def allowed(response: Response) -> Response:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Vary"] = "Origin"
        return response
