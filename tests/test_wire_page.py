"""docs/wire.md shows what is on the wire: every block and every table of it is compared with the wire."""

from __future__ import annotations

import re
import threading

import pytest
from flask import Flask, Response, redirect, request
from pages import Page, code

from flaskstream import Upstream, create_blueprint, event_stream
from flaskstream.dialects import ANTHROPIC
from flaskstream.doctor.measure import Request, open_exchange, record
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess
from flaskstream.testing import serve
from flaskstream.unbuffered import STREAM_HEADERS

PAGE = Page("docs/wire.md")
WHOLE, FAILED, SILENT, FAITHFUL, MESSAGES = PAGE.blocks("text")

TWO_WORDS = Script(tokens=2, interval_ms=10)
IDLE_SECONDS = 0.5
PATIENCE = 10  # seconds that no test needs, unless it fails
NOBODY_LISTENS = "http://127.0.0.1:1/v1"


@pytest.fixture(scope="module")
def url():
    """An app with a blueprint for each upstream: the model, one that redirects, one that is not there."""
    app = Flask("wire")
    app.add_url_rule("/quiet", view_func=event_stream(heartbeat=0.5, status_grace=0.2)(quiet))
    app.add_url_rule("/elsewhere/chat/completions", "elsewhere", lambda: redirect("/quiet"), methods=["POST"])
    app.add_url_rule("/elsewhere/messages", "messages", half_a_message, methods=["POST"])
    with ModelProcess(TWO_WORDS) as model, serve(app) as server:
        upstreams = {
            "model": Upstream(model.url, idle_timeout=IDLE_SECONDS),
            "redirecting": Upstream(server.url + "/elsewhere"),
            "absent": Upstream(NOBODY_LISTENS),
        }
        for name, upstream in upstreams.items():
            app.register_blueprint(create_blueprint(upstream, name=name, debug=True), url_prefix=f"/{name}")
        yield server.url
        for upstream in upstreams.values():
            upstream.close()


heartbeats_seen = threading.Semaphore(0)


def quiet():
    heartbeats_seen.acquire(timeout=PATIENCE)
    yield "late"
    heartbeats_seen.acquire(timeout=PATIENCE)


def half_a_message():
    asked.append(request.headers)
    body = b'event: message_start\ndata: {"type": "message_start"}\n\n'
    return Response(body, mimetype="text/event-stream")


asked = []


def get(url, method="GET", **headers):
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return record(Request(url, method, pairs))


def post(url, body, *headers):
    return record(Request(url, "POST", (("Content-Type", "application/json"), *headers), body.encode()))


def ask(url, script=""):
    return post(url + "/model/chat", f'{{"q": "hello", "model": "tick?tokens=2&interval_ms=10&{script}"}}')


def on_page(body):
    """Return a body as the page shows it: every id is the same, and so is every time to come back."""
    shown = re.sub(r"\b[0-9a-f]{16}\b", "0123456789abcdef", body.decode())
    return re.sub(r"\bretry: [34]\d{3}\b", "retry: 3000", shown)


def test_a_whole_answer(url):
    assert on_page(get(url + "/model/chat?q=hello").body) == WHOLE


def test_a_failure_after_the_first_event(url):
    assert on_page(ask(url, "close_at=500").body) == FAILED


def test_silence(url):
    body = b""
    with open_exchange(Request(url + "/quiet")) as exchange:
        for chunk in exchange.chunks():
            body += chunk.data
            if chunk.data == b": hb\n\n":
                heartbeats_seen.release()
    assert on_page(body) == SILENT


def test_the_api_s_own_route_ends_with_the_api_s_own_error_and_a_cut(url):
    payload = '{"stream": true, "messages": [], "model": "tick?tokens=2&close_at=500"}'
    seen = post(url + "/model/v1/chat/completions", payload)
    *_, error = on_page(seen.body).split("\n\n")[:-1]
    assert error + "\n\n" == FAITHFUL
    assert seen.http_version == "1.0" or seen.framing_complete is False


def test_the_messages_route_ends_with_anthropic_s_own_error_and_a_cut(url):
    headers = [("anthropic-version", "1"), ("anthropic-beta", "2"), ("X-Of-The-Client", "3"), ("Cookie", "a=b")]
    seen = post(url + "/redirecting/v1/messages", '{"stream": true, "messages": []}', *headers)
    *_, error = on_page(seen.body).split("\n\n")[:-1]
    assert error + "\n\n" == MESSAGES
    assert seen.http_version == "1.0" or seen.framing_complete is False
    passed = {name for name, value in asked[-1].items() if value in ("1", "2", "3", "a=b")}
    assert {name.lower() for name in passed} == set(ANTHROPIC.client_headers)
    assert all(code(name) in PAGE.text for name in ANTHROPIC.client_headers)


REQUESTS = {
    "a question": lambda url: get(url + "/model/chat?q=hello"),
    "`HEAD`": lambda url: get(url + "/absent/chat?q=hello", "HEAD"),
    "the `Last-Event-ID` of a closing event": lambda url: get(url + "/absent/chat?q=hello", Last_Event_ID="done-1f"),
    "no question, or no JSON object": lambda url: post(url + "/model/v1/chat/completions", "[]"),
    "the upstream answers 429": lambda url: ask(url, "status=429&retry_after=7"),
    "the upstream redirects, or sends a page": lambda url: get(url + "/redirecting/chat?q=hello"),
    "the upstream cannot be reached": lambda url: get(url + "/absent/chat?q=hello"),
    "the upstream does not answer in time": lambda url: ask(url, "slow_headers_ms=5000"),
}


def test_every_request_of_the_table_is_made():
    assert [row[0] for row in PAGE.rows("Statuses")] == list(REQUESTS)


@pytest.mark.parametrize("row", PAGE.rows("Statuses"), ids=lambda row: row[0].replace("`", ""))
def test_the_status_and_the_code_are_those_of_the_table(url, row):
    request, status, body = row
    seen = REQUESTS[request](url)
    assert str(seen.status) == status
    named = re.search(r'"code": "(\w+)"', body)
    if named:
        assert f'"code":"{named[1]}"' in seen.body.decode().replace('": "', '":"')
    if body.startswith("none"):
        assert seen.body == b""


def test_a_missing_question_is_refused_as_no_json_object_is(url):
    seen = get(url + "/model/chat")
    assert seen.status == 400
    assert b"bad_request" in seen.body


def test_a_page_of_the_upstream_is_refused_as_a_redirect_is(url):
    seen = ask(url, "content_type=text/html")
    assert seen.status == 502
    assert b"upstream_error" in seen.body


def test_the_upstream_s_own_error_is_passed_on(url):
    seen = ask(url, "status=429&retry_after=7")
    assert seen.header("Retry-After") == "7"
    assert b"rate_limit_exceeded" in seen.body


def test_the_headers_are_those_of_the_table(url):
    seen = get(url + "/model/chat?q=hello")
    documented = {name.strip("`"): value.strip("`") for name, value, _ in PAGE.rows("Headers of a stream")}
    assert {name: seen.header(name) for name in documented} == documented
    assert documented == {"Content-Type": "text/event-stream", **STREAM_HEADERS}


@pytest.mark.parametrize("name", ["Content-Length", "ETag", "Accept-Ranges"])
def test_what_a_stream_never_carries_is_not_there(url, name):
    assert code(name) in PAGE.section("Headers of a stream")
    assert get(url + "/model/chat?q=hello").header(name) is None
