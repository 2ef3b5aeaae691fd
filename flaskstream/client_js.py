"""The route `/client.js`: the browser's side of the kit, one module as it stands in `static/`."""

from __future__ import annotations

import hashlib
import pathlib

from flask import Blueprint, Response, request

SOURCE = pathlib.Path(__file__).parent / "static" / "client.js"
CONTENT_TYPE = "text/javascript; charset=utf-8"  # a browser runs no module of another type
MAX_AGE = 300
"""Seconds for which a browser does not ask again: after an update of the kit, pages have the old client for so long."""


def add_client(blueprint: Blueprint) -> None:
    """Add the route. It is guarded as the others are, hence `private`: no shared cache hands it to who is refused."""
    source = SOURCE.read_bytes()
    etag = hashlib.sha256(source).hexdigest()[:32]

    @blueprint.route("/client.js", endpoint="client_js")
    def client_js() -> Response:
        response = Response(source, content_type=CONTENT_TYPE)
        response.headers["Cache-Control"] = f"private, max-age={MAX_AGE}"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.set_etag(etag)
        response.make_conditional(request)
        return response
