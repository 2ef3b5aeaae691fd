"""The route `/compare`: a page that reads the fixed mode and the broken mode side by side, and its files."""

from __future__ import annotations

import html
import pathlib
from dataclasses import dataclass

from flask import Blueprint, Response, current_app

STATIC = pathlib.Path(__file__).parent / "static"

BESIDE = "FLASKSTREAM_COMPARE_BESIDE"
"""In the configuration of an app: a `Beside`, if there is a broken server to read from."""

_PLACE_OF_DESK = '<meta name="desk" content="">'
_FILES = {"compare.js": "text/javascript; charset=utf-8", "compare.css": "text/css; charset=utf-8"}


@dataclass(frozen=True)
class Beside:
    """What `flaskstream compare --serve` has started beside this server; origins such as `http://127.0.0.1:43210`.

    Attributes:
        broken: the server of the broken mode.
        desk: tells about both, and chooses the mistake.
    """

    broken: str
    desk: str


def add_compare_page(blueprint: Blueprint) -> None:
    """Add the page and its two files. `/client.js` must be there; without a `Beside` the page has one column."""

    @blueprint.route("/compare", endpoint="compare")
    def compare() -> Response:
        beside: Beside | None = current_app.config.get(BESIDE)
        page = (STATIC / "compare.html").read_text("utf-8")
        if beside is not None:
            place = f'<meta name="desk" content="{html.escape(beside.desk)}">'
            page = page.replace(_PLACE_OF_DESK, place)
        response = _answer(page, "text/html; charset=utf-8")
        response.headers["Content-Security-Policy"] = _policy(beside)
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    for name, content_type in _FILES.items():
        _add_file(blueprint, name, content_type)


def _add_file(blueprint: Blueprint, name: str, content_type: str) -> None:
    @blueprint.route(f"/{name}", endpoint=name.replace(".", "_"))
    def file() -> Response:
        return _answer((STATIC / name).read_text("utf-8"), content_type)


def _answer(text: str, content_type: str) -> Response:
    response = Response(text, content_type=content_type)
    response.headers["Cache-Control"] = "no-store"  # it is a page for developers: never that of an older release
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _policy(beside: Beside | None) -> str:
    """Return what the page may do: run and load its own files, and ask these servers. https://www.w3.org/TR/CSP3/"""
    servers = "'self'" if beside is None else f"'self' {beside.broken} {beside.desk}"
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src {servers}; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
