"""`event_stream`: the kinds of views it makes streams of, and what it leaves alone."""

from __future__ import annotations

import pytest
from flask import Blueprint, Flask, Response, has_request_context, redirect, request, stream_with_context, url_for
from flask.views import MethodView, View
from one_view import app_of, names_and_data, opened, streamed

from flaskstream import Event, event_stream


def letters(word="ab"):
    yield from word


LETTERS = [("message", "a"), ("message", "b"), ("done", '{"events":2}')]


class Countdown:
    """An iterator that is no generator, and counts how often it is closed."""

    def __init__(self, count):
        self.count = count
        self.closed = 0

    def __iter__(self):
        return self

    def __next__(self):
        if not self.count:
            raise StopIteration
        self.count -= 1
        return str(self.count)

    def close(self):
        self.closed += 1


def test_a_view_that_is_a_generator_function():
    with streamed(letters) as stream:
        assert names_and_data(stream) == LETTERS


def test_a_view_that_returns_a_generator():
    with streamed(lambda: letters()) as stream:
        assert names_and_data(stream) == LETTERS


def test_a_view_that_returns_an_iterator_which_is_closed_once():
    countdown = Countdown(2)
    with streamed(lambda: countdown) as stream:
        assert names_and_data(stream)[:2] == [("message", "1"), ("message", "0")]
    assert countdown.closed == 1


def test_status_and_headers_can_come_with_the_generator():
    with streamed(lambda: (letters(), 202, {"X-More": "1"})) as stream:
        assert (stream.status, stream.headers["X-More"]) == (202, "1")
        assert names_and_data(stream) == LETTERS


def test_the_usual_recipe_of_headers_does_no_harm():
    recipe = {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-cache",
        "Connection": "keep-alive",
        "Transfer-Encoding": "chunked",
        "Content-Length": "5",
    }
    with streamed(lambda: (letters(), recipe)) as stream:
        assert stream.headers.getlist("Content-Type") == ["text/event-stream"]
        assert stream.headers.getlist("Cache-Control") == ["no-cache, no-store, no-transform"]
        assert stream.headers.getlist("Connection") == ["close"]  # the server's own
        assert "Content-Length" not in stream.headers
        assert names_and_data(stream) == LETTERS


def test_arguments_of_the_route_reach_the_view():
    app = Flask("arguments")
    app.add_url_rule("/<word>", "view", event_stream(letters))
    with opened(app, "/ab") as stream:
        assert names_and_data(stream) == LETTERS


def test_views_of_a_blueprint():
    blueprint = Blueprint("some", __name__)

    @blueprint.route("/letters")
    @event_stream(heartbeat=1)
    def view():
        yield url_for(".view")

    app = Flask("with_blueprint")
    app.register_blueprint(blueprint, url_prefix="/prefix")
    with opened(app, "/prefix/letters") as stream:
        assert stream.take(1)[0].event.data == "/prefix/letters"


def test_class_views():
    class Plain(View):
        decorators = (event_stream,)

        def dispatch_request(self):
            yield from "ab"

    class ByMethod(MethodView):
        @event_stream
        def get(self):
            yield from "ab"

        def post(self):
            return "posted"

    app = Flask("class_views")
    app.add_url_rule("/plain", view_func=Plain.as_view("plain"))
    app.add_url_rule("/method", view_func=ByMethod.as_view("method"))
    for path in ("/plain", "/method"):
        with opened(app, path) as stream:
            assert names_and_data(stream) == LETTERS
    with opened(app, "/method", method="POST") as stream:
        assert stream.text() == "posted"


def test_the_decorated_view_keeps_its_name():
    assert event_stream(letters).__name__ == "letters"


def test_an_app_with_a_response_class_of_its_own():
    class Branded(Response):
        default_mimetype = "text/plain"

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.headers["X-Brand"] = "1"

    app = app_of(letters)
    app.response_class = Branded
    with opened(app) as stream:
        assert (stream.headers["X-Brand"], stream.headers["Content-Type"]) == ("1", "text/event-stream")
        assert names_and_data(stream) == LETTERS


# What is no stream.


def test_a_view_that_returns_something_else_is_left_alone():
    with streamed(lambda: "not streamed") as stream:
        assert (stream.headers["Content-Type"], stream.text()) == ("text/html; charset=utf-8", "not streamed")
    with streamed(lambda: redirect("/elsewhere")) as stream:
        assert stream.status == 302
    with streamed(lambda: ("short", 418)) as stream:
        assert stream.status == 418


def test_head_answers_as_get_would_and_calls_nothing():
    called = []

    def view():
        called.append(request.method)
        yield "a"

    with streamed(view, method="HEAD") as head:
        assert (head.status, head.text()) == (200, "")
    assert called == []
    with streamed(view) as stream:
        stream.text()
    own = {"Content-Type", "Cache-Control", "X-Accel-Buffering", "Content-Length", "Content-Encoding", "ETag"}
    of_head, of_get = (
        {name: value for name, value in headers if name in own} for headers in (head.headers, stream.headers)
    )
    assert of_head == of_get


def test_a_client_that_comes_back_after_the_end_is_told_so():
    with streamed(letters) as stream:
        (*_, done) = stream
    assert done.event.event == "done"
    with streamed(letters, headers={"Last-Event-ID": done.event.id}) as again:
        assert (again.status, again.text()) == (204, "")
        assert "Content-Type" not in again.headers


@pytest.mark.parametrize("last_event_id", ["", "7", "done", "done-", "done-x", "done-1 ", "\u00e9"])
def test_a_client_that_comes_back_in_the_middle_gets_a_stream(last_event_id):
    def view():
        yield Event("a", id="done-z")

    with streamed(view, headers={"Last-Event-ID": last_event_id}) as stream:
        assert stream.status == 200
        assert stream.take(1)[0].event.data == "a"


def test_a_generator_that_holds_the_context_itself_is_refused(caplog):
    app = app_of(lambda: stream_with_context(letters()))
    assert app.test_client().get("/").status_code == 500
    assert "expected a plain generator from the view, got one in stream_with_context()" in caplog.text
    assert not has_request_context()  # it is not left behind


async def async_letters():
    yield "a"


def test_a_view_that_is_an_async_generator_is_refused_before_the_first_request():
    with pytest.raises(TypeError, match="expected a generator, got the async one async_letters"):
        event_stream(async_letters)


def test_an_async_generator_that_a_view_returns_is_refused(caplog):
    with streamed(lambda: async_letters()) as stream:
        assert stream.status == 500
        stream.text()
    assert "expected a generator from the view, got an async one" in caplog.text


def test_an_async_view_may_return_a_generator():
    pytest.importorskip("asgiref", reason="Flask has async views with asgiref")
    if not hasattr(Flask, "ensure_sync"):
        pytest.skip("this Flask has no async views")

    async def view():
        return letters(request.args["word"])

    with opened(app_of(view), "/?word=ab") as stream:
        assert names_and_data(stream) == LETTERS
