"""Forged requests: Flask-WTF's CSRFProtect, set up as docs/security.md says."""

from __future__ import annotations

import pytest
from flask import Flask
from secured import ASKED, CSRF, LOGIN, QUESTION, secured, whole

from flaskstream import Upstream, create_blueprint
from flaskstream.doctor.measure import Request, record
from flaskstream.testing import open_stream, serve

csrf = pytest.importorskip("flask_wtf.csrf", reason="Flask-WTF is not installed")

PATIENCE = 10  # seconds that no test needs, unless it fails
SDK_ROUTES = ("/v1/chat/completions", "/v1/messages")


@pytest.fixture(scope="module")
def app(model):
    with secured(model, LOGIN, CSRF) as app:
        yield app


@pytest.mark.parametrize("form", [False, True], ids=["json", "form"])
def test_without_a_token_nothing_is_asked(model, form):
    with secured(model, LOGIN, CSRF) as app:
        if form:
            answer = send_form(app, "q=hello")
            status, text = answer.status, answer.body.decode()
        else:
            with app.ask(json=QUESTION) as answer:
                status, text = answer.status, answer.text()
        assert status == 400 and "CSRF" in text
        assert app.asked == []


def test_with_a_wrong_token_nothing_is_asked(model):
    with secured(model, LOGIN, CSRF) as app, app.ask(headers={"X-CSRFToken": "x" + app.token}, json=QUESTION) as answer:
        assert answer.status == 400
        assert app.asked == []


def test_with_its_token_a_page_gets_a_stream(app):
    with app.ask(headers={"X-CSRFToken": app.token}, json=QUESTION) as stream:
        assert stream.status == 200
        assert whole(stream)


def test_a_form_with_its_token_gets_a_stream(app):
    stream = send_form(app, f"q=hello&csrf_token={app.token}")
    assert [timed.event.event for timed in stream.events][-1] == "done"


def test_a_get_is_not_covered_and_so_its_page_is_looked_at(app):
    with app.ask("/chat?q=hello") as stream:
        assert whole(stream)
    with app.ask("/chat?q=hello", {"Sec-Fetch-Site": "cross-site"}) as answer:
        assert answer.status == 403


@pytest.mark.parametrize("path", SDK_ROUTES)
def test_the_official_clients_need_no_token(app, path):
    with app.ask(path, json=ASKED) as stream:
        assert stream.status == 200
        assert len(list(stream)) > 2


@pytest.mark.parametrize("path", SDK_ROUTES)
@pytest.mark.parametrize("type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_their_routes_take_nothing_that_a_foreign_page_can_send(model, path, type):
    with secured(model, LOGIN, CSRF) as app, app.ask(path, {"Content-Type": type}, json=ASKED) as answer:
        assert answer.status == 400
        assert app.asked == []


def test_a_whole_blueprint_can_be_exempt(model):
    app = Flask("two")
    app.secret_key = "k"
    upstream = Upstream(model.url)
    pages, programs = (create_blueprint(upstream, name=name) for name in ("pages", "programs"))
    csrf.CSRFProtect(app).exempt(programs)
    app.register_blueprint(pages, url_prefix="/pages")
    app.register_blueprint(programs, url_prefix="/programs")
    with serve(app) as server:
        for path, status in (("/pages", 400), ("/programs", 200)):
            with open_stream(f"{server.url}{path}/v1/chat/completions", json=ASKED) as answer:
                assert answer.status == status
    upstream.close()


def send_form(app, fields):
    """Send what a form of any page can send."""
    headers = (*app.cookie.items(), ("Content-Type", "application/x-www-form-urlencoded"))
    return record(Request(app.url + "/chat", "POST", headers, fields.encode(), timeout=PATIENCE))
