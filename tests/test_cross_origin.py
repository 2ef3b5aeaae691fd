"""Pages of another origin: Flask-CORS, set up as docs/security.md says, on each route and for each kind of answer."""

from __future__ import annotations

import pytest
from secured import ASKED, CORS, LOGIN, ORIGIN, QUESTION, secured, whole

from flaskstream.testing import open_stream
from flaskstream.upstream.answer import FORWARDED_HEADERS

pytest.importorskip("flask_cors", reason="Flask-CORS is not installed")

ROUTES = {"/chat": QUESTION, "/v1/chat/completions": ASKED, "/v1/messages": ASKED}
SENT = "authorization,cache-control,content-type,idempotency-key,last-event-id,x-csrftoken"
"""What a client that uses `fetch` sends beside what is allowed anyway."""


@pytest.fixture(scope="module")
def app(model):
    with secured(model, LOGIN, CORS) as app:
        yield app


def preflight(app, path, origin=ORIGIN, method="POST", headers=SENT):
    """What a browser asks before it asks; with neither a cookie nor a token."""
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": headers,
        "Sec-Fetch-Site": "cross-site",
    }
    return open_stream(app.url + path, "OPTIONS", headers=asked)


def names_in(value):
    return {name.strip().lower() for name in value.split(",")}


def assert_readable(answer):
    """The page may read the answer, and nobody else may."""
    assert answer.headers.getlist("Access-Control-Allow-Origin") == [ORIGIN]
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"
    exposed = names_in(",".join((*FORWARDED_HEADERS, "Location", "X-Stream-Id")))
    assert names_in(answer.headers["Access-Control-Expose-Headers"]) == exposed


FROM_THERE = {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"}


@pytest.mark.parametrize("path", ROUTES)
def test_a_browser_s_question_is_answered_for_all_that_a_client_sends(app, path):
    with preflight(app, path) as answer:
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"
        assert {"post", "delete"} <= names_in(answer.headers["Access-Control-Allow-Methods"])
        assert names_in(SENT) <= names_in(answer.headers["Access-Control-Allow-Headers"])


@pytest.mark.parametrize("path", ROUTES)
def test_a_foreign_origin_is_not_let_in(app, path):
    with preflight(app, path, origin="https://evil.example") as answer:
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_header_that_is_not_named_is_not_let_in(app):
    with preflight(app, "/chat", headers="x-other") as answer:
        assert "x-other" not in names_in(answer.headers.get("Access-Control-Allow-Headers", ""))


def test_a_stream_can_be_read(app):
    with app.ask(headers=FROM_THERE, json=QUESTION) as stream:
        assert stream.status == 200
        assert_readable(stream)
        assert whole(stream)


def test_an_event_source_of_there_can_read_a_stream(app):
    with app.ask("/chat?q=hello", FROM_THERE) as stream:
        assert_readable(stream)
        assert whole(stream)


def test_the_official_clients_formats_can_be_read(app):
    with app.ask("/v1/chat/completions", FROM_THERE, json=ASKED) as stream:
        assert_readable(stream)
        assert [timed.event.data for timed in stream][-1] == "[DONE]"


ANSWERS = {
    "bad_request": (400, {"json": {"no": "question"}}),
    "no_such_method": (405, {"method": "DELETE"}),
    "failed_upstream": (503, {"path": "/v1/chat/completions", "json": {**ASKED, "model": "no?status=503"}}),
    "whole_answer": (200, {"path": "/v1/chat/completions", "json": {**ASKED, "stream": False}}),
    "end_of_reconnecting": (204, {"path": "/chat?q=hello", "headers": {"Last-Event-ID": "done-1"}}),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_other_answer_can_be_read_too(app, name):
    status, asked = ANSWERS[name]
    with app.ask(**{**asked, "headers": {**FROM_THERE, **asked.get("headers", {})}}) as answer:
        assert answer.status == status
        assert_readable(answer)


def test_who_is_refused_can_read_that_too(app):
    with open_stream(app.url + "/chat", headers=FROM_THERE, json=QUESTION) as answer:
        assert answer.status == 403
        assert_readable(answer)


def test_a_foreign_origin_cannot_read_and_asks_nothing(model):
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    with secured(model, LOGIN, CORS) as app, app.ask(headers=headers, json=QUESTION) as answer:
        assert answer.status == 403
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert app.asked == []
