"""The session of a stream: what the view changes is stored, what the generator changes comes too late."""

from __future__ import annotations

import time

from flask import session
from one_view import app_of, names_and_data, opened


def test_what_the_view_puts_into_the_session_is_stored():
    def view():
        session["n"] = 1
        return iter(["a"])

    client = app_of(view).test_client()
    assert b"done" in client.get("/").data
    with client.session_transaction() as stored:
        assert dict(stored) == {"n": 1}


def test_what_the_generator_puts_there_is_lost_and_the_log_says_so(caplog):
    def view():
        session["n"] = 2
        yield str(session["n"])

    app = app_of(view)
    app.after_request(lambda response: time.sleep(0.1) or response)  # the generator is faster
    client = app.test_client()
    assert b"data: 2\n" in client.get("/").data
    with client.session_transaction() as stored:
        assert dict(stored) == {}
    assert "the session was changed while the response was streaming" in caplog.text


def test_a_session_that_is_only_read_is_no_news(caplog):
    def view():
        yield str(session.get("n"))

    client = app_of(view).test_client()
    with client.session_transaction() as stored:
        stored["n"] = 3
    assert b"data: 3\n" in client.get("/").data
    assert caplog.text == ""


def test_an_app_without_sessions_streams_too():
    app = app_of(lambda: iter("a"))
    app.secret_key = None
    with opened(app) as stream:
        assert names_and_data(stream)[0] == ("message", "a")
        assert "Vary" not in stream.headers
        assert "Set-Cookie" not in stream.headers
