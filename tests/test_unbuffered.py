"""The response that nobody reads whole: in debug its reader is refused by name, in production the stream goes on."""

from __future__ import annotations

import inspect
import logging

import pytest
from flask import Flask, Response
from one_view import app_of, names_and_data, opened

import flaskstream.unbuffered
from flaskstream import event_stream
from flaskstream.errors import BodyWasRead

WHOLE = [("message", "a"), ("message", "b"), ("done", '{"events":2}')]


def get_data(response):
    return response.get_data()


def get_text(response):
    return response.get_data(as_text=True)


def read_data(response):
    return response.data


def set_data(response):
    response.set_data(b"shorter")


def assign_data(response):
    response.data = "shorter"


def calculate_length(response):
    return response.calculate_content_length()


def make_sequence(response):
    return response.make_sequence()


def add_etag(response):
    return response.add_etag()


def freeze(response):
    return response.freeze()


def assign_body(response):
    response.response = [b"shorter"]


def loop(response):
    return list(response.response)


def loop_encoded(response):
    return b"".join(response.iter_encoded())


READERS = [
    get_data,
    get_text,
    read_data,
    set_data,
    assign_data,
    calculate_length,
    make_sequence,
    add_etag,
    freeze,
    assign_body,
    loop,
    loop_encoded,
]


@pytest.fixture(autouse=True)
def nobody_was_warned_of(monkeypatch):
    monkeypatch.setattr(flaskstream.unbuffered, "_warned", set())


def app_with_hook(read, debug=False):
    app = app_of(lambda: iter("ab"), debug=debug)

    @app.after_request
    def hook(response):
        read(response)
        return response

    return app


def line_of(function):
    """Where the body of a two-line function is."""
    return f"{__file__}:{inspect.getsourcelines(function)[1] + 1} in {function.__name__}"


@pytest.mark.parametrize("read", READERS)
def test_in_production_the_stream_goes_on_and_the_log_names_the_reader(read, caplog):
    with opened(app_with_hook(read)) as stream:
        assert stream.status == 200
        assert not {"ETag", "Content-Length"} & {name for name, _ in stream.headers}
        assert names_and_data(stream) == WHOLE
    (warning,) = [record for record in caplog.records if record.name == "flaskstream.unbuffered"]
    assert warning.levelno == logging.WARNING
    assert f"called by {line_of(read)}. The stream goes on, unread" in warning.getMessage()


@pytest.mark.parametrize("read", READERS)
def test_in_debug_the_reader_is_refused_by_name(read):
    client = app_with_hook(read, debug=True).test_client()
    with pytest.raises(BodyWasRead) as caught:
        client.get("/")
    assert f"would read a whole stream before it is sent; called by {line_of(read)}" in str(caught.value)


def test_what_the_reader_gets_in_production_is_empty():
    read = []
    app = app_with_hook(lambda response: read.extend([get_data(response), get_text(response), loop(response)]))
    with opened(app) as stream:
        assert names_and_data(stream) == WHOLE
    assert read == [b"", "", []]


def test_a_hook_that_puts_what_it_read_in_place_of_the_body_loses_nothing():
    def rewrite(response):
        response.response = [piece.upper() for piece in response.response]

    with opened(app_with_hook(rewrite)) as stream:
        assert names_and_data(stream) == WHOLE


def test_a_hook_may_wrap_the_body_in_a_generator():
    def wrap(response):
        body = response.response
        response.response = (piece for piece in body)

    with opened(app_with_hook(wrap)) as stream:
        assert names_and_data(stream) == WHOLE


def test_each_reader_is_warned_of_once(caplog):
    app = app_with_hook(lambda response: (get_data(response), get_text(response)))
    for _ in range(3):
        app.test_client().get("/")
    assert len(caplog.records) == 2


def test_a_conditional_response_stays_a_stream():
    app = app_of(lambda: iter("ab"))
    app.after_request(lambda response: response.make_conditional({"REQUEST_METHOD": "GET", "HTTP_IF_NONE_MATCH": "*"}))
    with opened(app) as stream:
        assert stream.status == 200
        assert names_and_data(stream) == WHOLE


def test_headers_that_hooks_set_do_not_break_the_stream():
    app = app_of(lambda: iter("ab"))

    @app.after_request
    def secure(response):
        response.headers["Cache-Control"] = "public, max-age=600"
        response.headers["X-Accel-Buffering"] = "yes"
        response.headers["Connection"] = "keep-alive"
        response.headers["X-Frame-Options"] = "DENY"
        response.content_length = 3
        response.set_etag("tag")
        return response

    with opened(app) as stream:
        assert stream.headers["Cache-Control"] == "no-cache, no-store, no-transform"
        assert stream.headers["X-Accel-Buffering"] == "no"
        assert stream.headers["X-Frame-Options"] == "DENY"
        assert not {"ETag", "Content-Length"} & {name for name, _ in stream.headers}
        assert names_and_data(stream) == WHOLE


def test_a_cookie_of_a_hook_is_sent():
    app = app_of(lambda: iter("ab"))

    @app.after_request
    def remember(response):
        response.set_cookie("seen", "1")
        return response

    with opened(app) as stream:
        assert stream.headers["Set-Cookie"].startswith("seen=1")


def test_flask_compress_leaves_it_alone():
    flask_compress = pytest.importorskip("flask_compress", reason="Flask-Compress is not installed")
    app = app_of(lambda: iter("ab"))
    app.config["COMPRESS_MIMETYPES"] = ["text/event-stream"]
    app.config["COMPRESS_MIN_SIZE"] = 0
    flask_compress.Compress(app)
    plain = Response("data: a\n\n", mimetype="text/event-stream")
    app.add_url_rule("/plain", "plain", lambda: plain)
    asked = {"Accept-Encoding": "br, gzip, deflate, zstd"}
    with opened(app, headers=asked) as stream:
        assert "Content-Encoding" not in stream.headers
        assert names_and_data(stream) == WHOLE
    assert app.test_client().get("/plain", headers=asked).headers["Content-Encoding"]  # which it would compress


def test_closing_the_response_closes_the_stream():
    closed = []
    app = Flask("closing")
    stream_view = event_stream(on_end=closed.append)(lambda: iter("ab"))
    with app.test_request_context():
        response = stream_view()
        response.close()
        response.close()
    assert [report.reason for report in closed] == ["client_gone"]


def test_an_apps_own_response_class_is_unbuffered_too():
    class Branded(Response):
        def get_data(self, as_text=False):
            return super().get_data(as_text)

    app = app_with_hook(get_data)
    app.response_class = Branded
    with opened(app) as stream:
        assert names_and_data(stream) == WHOLE
