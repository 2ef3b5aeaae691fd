"""Streams in apps with other people's extensions and middlewares: they still come tick by tick, and are cleaned up.

The packages are the real ones. What they can do to a stream is shown by a control in the same app, where they can.
"""

from __future__ import annotations

import logging
from contextlib import closing

import pytest
from flask import Flask, jsonify, session
from one_view import eventually
from relay_client import chat, complete
from werkzeug.middleware.proxy_fix import ProxyFix
from wrapped import (
    HEARTBEAT,
    TICK,
    app_to_wrap,
    assert_closed_behind,
    assert_prompt,
    drop_close,
    held_until_the_end,
    hold_on,
    map_each,
    put_before,
    put_behind,
)

from flaskstream import event_stream
from flaskstream.blueprint import create_blueprint
from flaskstream.doctor.measure import Request, record
from flaskstream.lab.model.script import Script
from flaskstream.open_streams import OPEN_STREAMS
from flaskstream.serving.client import LOOK_SECONDS
from flaskstream.testing import open_stream, serve
from flaskstream.upstream import Upstream

OFFERED = {"gzip": "gzip", "br": "br", "zstd": "zstd", "gzip, deflate": "gzip", "gzip, deflate, br, zstd": "zstd"}
"""What clients offer, and what Flask-Compress makes of it."""
EVERYTHING = ["zstd", "br", "gzip", "deflate"]
SCRIPT = Script("wrapped", tokens=6, interval_ms=int(TICK * 1000))


@pytest.fixture(scope="module", params=["before", "after"])
def compressed(request, model):
    """An app that compresses streams of events, with Flask-Compress set up before or after the streams."""
    flask_compress = pytest.importorskip("flask_compress", reason="Flask-Compress is not installed")
    app = app_to_wrap()
    app.config.update(COMPRESS_MIMETYPES=["text/event-stream"], COMPRESS_MIN_SIZE=0, COMPRESS_STREAMS=True)
    app.config.update(COMPRESS_ALGORITHM=EVERYTHING, COMPRESS_ALGORITHM_STREAMING=EVERYTHING)
    if request.param == "before":
        compress = flask_compress.Compress(app)
    with closing(Upstream(model.url, model=SCRIPT.model)) as upstream:
        app.register_blueprint(create_blueprint(upstream), url_prefix="/stream")
        if request.param == "after":
            compress = flask_compress.Compress(app)
        view = app.view_functions["ticks"]
        app.add_url_rule("/marked", "marked", compress.compressed()(view))
        app.add_url_rule("/marked-inside", "inside", event_stream(compress.compressed()(view.__wrapped__)))
        with serve(app) as server:
            yield server


@pytest.mark.parametrize("offered", OFFERED)
def test_flask_compress_leaves_a_stream_alone(compressed, offered):
    assert_prompt(compressed.url, ("Accept-Encoding", offered))


@pytest.mark.parametrize("path", ["/marked", "/marked-inside"])
def test_flask_compress_leaves_a_view_alone_that_is_marked_for_it(compressed, path):
    assert_prompt(compressed.url, ("Accept-Encoding", "br"), path=path)


@pytest.mark.parametrize("ask", [chat, complete])
@pytest.mark.parametrize("offered", OFFERED)
def test_flask_compress_leaves_the_relay_alone(compressed, offered, ask):
    recording = ask(compressed, SCRIPT.model, ("Accept-Encoding", offered))
    assert recording.header("Content-Encoding") is None
    assert recording.framing_complete and SCRIPT.token_texts[-1] in recording.body.decode()
    assert recording.events[-1].at - recording.events[0].at > TICK * (SCRIPT.tokens - 2)


@pytest.mark.parametrize("offered", OFFERED)
def test_the_control_flask_compress_holds_the_usual_stream(compressed, offered):
    usual = record(Request(compressed.url + "/usual", headers=(("Accept-Encoding", offered),)))
    assert usual.header("Content-Encoding") == OFFERED[offered]
    assert held_until_the_end(usual)


def test_behind_flask_compress_a_client_that_leaves_is_noticed(compressed):
    assert_closed_behind(compressed.url, ("Accept-Encoding", "br"))


@pytest.mark.parametrize("debug", [True, False])
def test_flask_debugtoolbar_leaves_a_stream_alone(debug):
    toolbar = pytest.importorskip("flask_debugtoolbar", reason="Flask-DebugToolbar is not installed")
    app = app_to_wrap()
    app.debug = debug
    app.config.update(DEBUG_TB_ENABLED=True, DEBUG_TB_PROFILER_ENABLED=True)
    toolbar.DebugToolbarExtension(app)
    app.add_url_rule("/page", "page", lambda: "<html><body>a page</body></html>")
    with serve(app) as server:
        with open_stream(server.url + "/page") as page:
            assert "flDebug" in page.text()  # the control: it is at work
        assert_prompt(server.url)
        assert_closed_behind(server.url)


@pytest.fixture
def with_sessions(tmp_path):
    flask_session = pytest.importorskip("flask_session", reason="Flask-Session is not installed")
    cachelib = pytest.importorskip("cachelib", reason="cachelib is not installed")
    app = app_to_wrap()
    app.config.update(SESSION_TYPE="cachelib", SESSION_CACHELIB=cachelib.FileSystemCache(str(tmp_path)))
    flask_session.Session(app)

    @app.route("/count")
    @event_stream
    def count():
        session["count"] = session.get("count", 0) + 1

        def items():
            yield {"count": session["count"]}
            if "late" in session:
                session["lost"] = True

        return items()

    app.add_url_rule("/late", "late", lambda: jsonify(session.update(late=True)))
    app.add_url_rule("/session", "session", lambda: jsonify(dict(session)))
    return app


def test_flask_session_stores_what_the_view_sets_and_says_what_it_cannot_store(with_sessions, caplog):
    with serve(with_sessions) as server:
        cookies = {}

        def ask(path):
            with open_stream(server.url + path, headers=cookies) as stream:
                if "Set-Cookie" in stream.headers:
                    cookies["Cookie"] = stream.headers["Set-Cookie"].partition(";")[0]
                return stream.json() if stream.headers["Content-Type"] == "application/json" else list(stream)

        assert ask("/count")[0].event.json() == {"count": 1}
        assert ask("/count")[0].event.json() == {"count": 2}
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
        ask("/late")
        ask("/count")
        assert "this change is lost" in caplog.text
        assert ask("/session") == {"_permanent": True, "count": 3, "late": True}


def test_flask_session_holds_no_stream_up(with_sessions):
    with serve(with_sessions) as server:
        assert_prompt(server.url)
        assert_closed_behind(server.url)


@pytest.mark.parametrize("wrap", [ProxyFix, drop_close, put_before, put_behind, map_each])
def test_a_middleware_around_a_stream(wrap):
    with serve(wrap(app_to_wrap())) as server:
        assert_prompt(server.url)
        assert_closed_behind(server.url)


@pytest.mark.skipif(not hasattr(Flask, "ensure_sync"), reason="the Werkzeug before Flask 2.0 tells of no socket")
def test_behind_a_middleware_that_holds_the_body_the_generator_is_closed_and_its_place_is_free():
    before = len(OPEN_STREAMS)
    with serve(hold_on(app_to_wrap())) as server:
        for _ in range(3):
            assert_closed_behind(server.url, within=2 * HEARTBEAT + LOOK_SECONDS)
        assert eventually(lambda: len(OPEN_STREAMS) <= before)


def test_behind_proxy_fix_the_generator_sees_the_clients_own_address():
    with serve(ProxyFix(app_to_wrap())) as server:
        recording = assert_prompt(server.url, ("X-Forwarded-For", "203.0.113.9"))
    assert {timed.event.json()["address"] for timed in recording.events[:-1]} == {"203.0.113.9"}
