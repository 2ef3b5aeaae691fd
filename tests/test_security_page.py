"""docs/security.md: its login, and what it says of keys and headers. Its other two blocks have files of their own."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from flask import Flask
from secured import API_KEY, ASKED, LOGIN, PAGE, PROGRAMS, QUESTION, secured, whole

from flaskstream import Upstream, create_blueprint
from flaskstream.dialects import DIALECTS
from flaskstream.testing import open_stream
from flaskstream.upstream.answer import FORWARDED_HEADERS

ROUTES = {"/chat": QUESTION, "/v1/chat/completions": ASKED, "/v1/messages": ASKED}


@pytest.fixture(scope="module")
def app(model):
    with secured(model, LOGIN) as app:
        yield app


def refused(app, answer):
    assert (answer.status, answer.json()["error"]["code"]) == (403, "forbidden")
    assert app.asked == []
    return True


@pytest.mark.parametrize("path", ROUTES)
def test_whoever_is_not_logged_in_asks_nothing(model, path):
    with secured(model, LOGIN) as app, open_stream(app.url + path, json=ROUTES[path]) as answer:
        assert refused(app, answer)


def test_whoever_is_logged_in_gets_an_answer(app):
    with app.ask(json=QUESTION) as stream:
        assert whole(stream)


def test_an_event_source_of_an_own_page_gets_an_answer(app):
    with app.ask("/chat?q=hello", {"Sec-Fetch-Site": "same-origin"}) as stream:
        assert whole(stream)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_a_link_on_a_foreign_page_spends_nothing(model, site):
    with secured(model, LOGIN) as app, app.ask("/chat?q=hello", {"Sec-Fetch-Site": site}) as answer:
        assert refused(app, answer)


def test_a_foreign_page_spends_nothing_either(model):
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    with secured(model, LOGIN) as app, app.ask(headers=headers, json=QUESTION) as answer:
        assert refused(app, answer)


def test_the_upstream_gets_the_key_and_nothing_of_the_client_but_what_the_page_names(model):
    sent = {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "b",
        "Authorization": "Bearer mine",
        "X-Forwarded-For": "1",
    }
    with secured(model, LOGIN) as app, app.ask("/v1/messages", sent, json=ASKED) as stream:
        list(stream)
        (got,) = [{name.lower(): value for name, value in asked["headers"].items()} for asked in app.asked]
    assert (got["anthropic-version"], got["anthropic-beta"]) == ("2023-06-01", "b")
    assert API_KEY in got.values() or f"Bearer {API_KEY}" in got.values()
    assert not {"cookie", "x-forwarded-for"} & set(got) and "Bearer mine" not in got.values()


def test_no_route_is_there_that_does_not_ask():
    app = Flask("all")
    app.register_blueprint(
        create_blueprint(Upstream("http://127.0.0.1:1/v1"), debug=True, authorize=lambda stream: False)
    )
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint != "static"]
    assert len(rules) >= 4
    for rule in rules:
        for method in rule.methods - {"OPTIONS"}:
            assert app.test_client().open(rule.rule, method=method).status_code == 403


@pytest.mark.parametrize(
    ("endpoint", "token", "may"),
    [
        ("flaskstream.stats", "Bearer secret", True),
        ("flaskstream.probe", "Bearer secret", True),
        ("flaskstream.chat", "Bearer secret", False),
        ("flaskstream.stats", "Bearer secreT", False),
        ("flaskstream.stats", "", False),
    ],
)
def test_a_program_with_its_token_sees_the_figures_and_nothing_else(monkeypatch, endpoint, token, may):
    monkeypatch.setenv("METRICS_TOKEN", "secret")
    request = SimpleNamespace(headers={"Authorization": token}, endpoint=endpoint)
    names = {"request": request, "os": os, "authorize": lambda stream: False}
    exec(PROGRAMS, names)
    assert names["authorize_programs_too"](None) is may


def test_the_page_names_the_headers_that_pass():
    section = PAGE.section("Keys, headers, contents")
    for name in (*FORWARDED_HEADERS, *(name for dialect in DIALECTS.values() for name in dialect.client_headers)):
        assert f"`{name}`" in section
