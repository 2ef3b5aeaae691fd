"""What a generator sees of its request: Flask's contexts and contextvars."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time

import pytest
from flask import Flask, current_app, g, has_app_context, has_request_context, request, url_for
from one_view import PATIENCE, app_of, names_and_data, opened, streamed

from flaskstream import event_stream
from flaskstream.testing import open_stream, serve

variable = contextvars.ContextVar("variable", default="unset")


def data_of(stream):
    return [data for _, data in names_and_data(stream)][:-1]


def test_request_g_and_app_are_there_until_the_generator_ends():
    seen = []

    def view():
        g.word = "w"

        def items():
            try:
                yield request.args["q"]
                yield g.word
                yield current_app.name
                yield url_for("view")
            finally:
                seen.append((request.path, g.word))

        return items()

    with opened(app_of(view), "/?q=question") as stream:
        assert data_of(stream) == ["question", "w", "one_view", "/"]
    assert seen == [("/", "w")]


def test_they_are_there_in_the_cleanup_when_the_client_leaves():
    cleaned_up = threading.Event()

    def view():
        try:
            while True:
                yield "a"
                time.sleep(0.01)
        finally:
            assert request.path == "/"
            cleaned_up.set()

    with streamed(view) as stream:
        stream.take(2)
        stream.close()
        assert cleaned_up.wait(PATIENCE)


def test_without_the_context_nothing_of_flask_is_held():
    def view():
        assert request.path == "/"

        def items():
            yield str(has_request_context())
            yield str(has_app_context())

        return items()

    with streamed(view, keep_context=False) as stream:
        assert data_of(stream) == ["False", "False"]


def test_what_the_hooks_made_of_the_request_stays():
    app = Flask("hooks")

    @app.url_value_preprocessor
    def pull_language(endpoint, values):
        g.language = values.pop("language")

    @app.route("/<language>/<word>")
    @event_stream
    def view(word):
        yield f"{g.language} {word} {request.view_args}"

    with opened(app, "/en/hello") as stream:
        assert data_of(stream) == ["en hello {'word': 'hello'}"]


def test_what_extensions_put_on_the_request_context_comes_along():
    app = app_of(lambda: iter([]))

    def context():
        try:
            from flask.globals import request_ctx
        except ImportError:
            from flask import _request_ctx_stack

            return _request_ctx_stack.top
        return request_ctx

    @app.before_request
    def load_user():
        context().user = "ada"

    @event_stream
    def view():
        yield context().user

    app.view_functions["view"] = view
    with opened(app) as stream:
        assert data_of(stream) == ["ada"]


def test_the_thread_of_the_server_keeps_no_context_when_a_stream_is_abandoned():
    app = app_of(lambda: map(str, range(1000)))
    body = app.test_client().get("/", buffered=False).response
    next(iter(body))
    del body
    assert not has_request_context()
    assert not has_app_context()
    assert app.test_client().get("/", headers={"Last-Event-ID": "done-1"}).status_code == 204


# contextvars.


def test_a_token_of_the_view_can_be_reset_by_the_generator():
    resets = []

    def view():
        token = variable.set("of the view")

        def items():
            try:
                yield variable.get()
                time.sleep(0.1)
                yield variable.get()
            finally:
                variable.reset(token)
                resets.append(variable.get())

        return items()

    with streamed(view, heartbeat=0.01) as stream:
        assert data_of(stream) == ["of the view"] * 2
    assert resets == ["unset"]


def test_variables_of_hooks_reach_the_view_and_those_of_the_view_reach_later_hooks():
    def view():
        before = variable.get()
        variable.set("of the view")
        return iter([before])

    app = app_of(view)

    @app.before_request
    def set_variable():
        variable.set("of a hook")

    @app.after_request
    def read_variable(response):
        response.headers["X-Variable"] = variable.get()
        return response

    with opened(app) as stream:
        assert stream.headers["X-Variable"] == "of the view"
        assert data_of(stream) == ["of a hook"]


def test_interleaved_streams_do_not_mix():
    turn = threading.Barrier(2)
    local = threading.local()

    def view():
        name = request.args["name"]
        variable.set(name)
        g.name = name

        def items():
            local.name = name
            for _ in range(5):
                turn.wait(PATIENCE)
                yield [variable.get(), g.name, request.args["name"], local.name]

        return items()

    with serve(app_of(view, status_grace=0)) as server, contextlib.ExitStack() as clients:
        a, b = (clients.enter_context(open_stream(f"{server.url}/?name={name}")) for name in "ab")
        for name, stream in (("a", a), ("b", b)):
            assert [timed.event.json() for timed in stream.take(5)] == [[name] * 4] * 5


@pytest.mark.parametrize("debug", [False, True])
def test_within_a_test_client_that_keeps_its_context(debug):
    torn_down = []
    app = app_of(lambda: iter("a"), debug=debug)
    app.teardown_request(lambda error: torn_down.append(threading.get_ident()))
    with app.test_client() as client:
        assert b"done" in client.get("/").data
        assert request.path == "/"
    assert len([thread for thread in torn_down if thread != threading.get_ident()]) == 1
