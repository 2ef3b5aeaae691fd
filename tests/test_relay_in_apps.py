"""The relay's blueprint in apps of others: under servers with threads, with hooks of their own, in production."""

from __future__ import annotations

import contextlib
import json
import threading
from contextlib import closing
from typing import Any, Iterator

import pytest
from answer_vectors import DONE, STOP, said
from flask import Flask, g
from raw_upstream import PATIENCE, Pause, RawUpstream, answer, head
from relay_client import chat, complete, end, error_code, events, text

from flaskstream import create_blueprint
from flaskstream.dialects import OPENAI
from flaskstream.errors import InvalidSetting
from flaskstream.relay import Relay
from flaskstream.testing import Server, serve
from flaskstream.upstream import Upstream


@pytest.fixture(scope="module", params=["werkzeug", "waitress"])
def threads(request: pytest.FixtureRequest, raw_upstream: RawUpstream) -> Iterator[Server]:
    """A server with threads and an impatient app."""
    app = Flask("threads")
    with closing(Upstream(raw_upstream.url)) as upstream:
        app.register_blueprint(create_blueprint(upstream, debug=True, status_grace=0.05), url_prefix="/stream")
        with serve(app) if request.param == "werkzeug" else waitress(app) as server:
            yield server


@contextlib.contextmanager
def waitress(app: Flask) -> Iterator[Server]:
    server = pytest.importorskip("waitress").create_server(app, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.effective_port}")
    finally:
        server.close()
        thread.join(PATIENCE)


def test_threads_stream_as_greenlets_do(threads: Server, raw_upstream: RawUpstream) -> None:
    steps = [head("close"), *[step for word in "abcd" for step in (said(word), Pause(0.06))], STOP]
    model = raw_upstream.plays(*steps, end="fin")
    recording = chat(threads, model)
    assert text(recording) == "abcd"
    assert recording.events[-1].at - recording.events[0].at > 0.12
    relayed = complete(threads, model)
    assert relayed.body.replace(b": open\n\n", b"") == b"".join(map(said, "abcd")) + STOP
    assert relayed.header("Content-Encoding") is None


@pytest.mark.parametrize("ask", [chat, complete])
def test_an_error_that_comes_after_the_grace_is_an_event(threads: Server, raw_upstream: RawUpstream, ask: Any) -> None:
    model = raw_upstream.plays(Pause(0.6), answer("length", b"{}", status=401, content_type="application/json"))
    recording = ask(threads, model)
    assert recording.status == 200
    assert recording.comments
    if ask is chat:
        assert error_code(recording) == "upstream_error"
    else:
        assert [OPENAI.read(event).error for event in events(recording)] == ["server_error"]


@pytest.mark.parametrize("route", ["/stream/chat", "/stream/v1/chat/completions"])
def test_a_long_stream_pins_nothing_of_the_request(upstream: Upstream, raw_upstream: RawUpstream, route: str) -> None:
    """Such as a session of the database: its teardown has run before the answer begins, and does not run again."""
    app = Flask("legacy")
    torn_down: list[str] = []
    app.before_request(lambda: setattr(g, "database", "session"))
    app.teardown_appcontext(lambda error: torn_down.append(g.get("database")))
    app.register_blueprint(create_blueprint(upstream, debug=True), url_prefix="/stream")
    model = raw_upstream.plays(answer("chunked", said("a"), DONE))
    with serve(app) as server:
        assert (chat if route.endswith("chat") else complete)(server, model).status == 200
    assert torn_down == ["session"]


def test_in_production_a_client_of_chat_chooses_no_model(raw_upstream: RawUpstream) -> None:
    allowed, asked = (raw_upstream.plays(answer("chunked", said(name), DONE)) for name in ("allowed", "asked"))
    app = Flask("production")
    with closing(Upstream(raw_upstream.url, model=allowed)) as upstream:
        app.register_blueprint(create_blueprint(upstream), url_prefix="/stream")
        with serve(app) as server:
            recording = chat(server, asked)
    assert (text(recording), end(recording).event) == ("allowed", "done")


def test_a_refused_connection_is_a_502() -> None:
    app = Flask("alone")
    with closing(Upstream("http://127.0.0.1:1/v1")) as upstream:
        app.register_blueprint(create_blueprint(upstream), url_prefix="/stream")
        with serve(app) as server:
            for recording in (chat(server, "x"), complete(server, "x"), complete(server, "x", stream=False)):
                assert recording.status == 502
                assert json.loads(recording.body)["error"]["code"] == "upstream_refused"


def test_two_blueprints_ask_two_upstreams(raw_upstream: RawUpstream) -> None:
    app = Flask("two")
    with contextlib.ExitStack() as stack:
        for name in ("one", "two"):
            model = raw_upstream.plays(answer("chunked", said(name), DONE))
            upstream = stack.enter_context(closing(Upstream(raw_upstream.url, model=model)))
            app.register_blueprint(create_blueprint(upstream, name=name), url_prefix=f"/{name}/stream")
        server = stack.enter_context(serve(app))
        assert [text(chat(Server(f"{server.url}/{name}"), "x")) for name in ("one", "two")] == ["one", "two"]


def test_a_blueprint_without_anyone_to_ask_is_refused(upstream: Upstream) -> None:
    with pytest.raises(InvalidSetting, match="upstream"):
        create_blueprint()
    with pytest.raises(InvalidSetting, match="store"):
        create_blueprint(upstream, store="mysql:x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"upstream": "https://api.example.com/v1"},
        {"upstream": Upstream},
        {"relay": "x"},
        {"relay": Upstream("http://127.0.0.1:1")},
        {"dialect": OPENAI},
        {"dialect": ["openai"]},
        {"dialect": ""},
        {"debug": None},
        {"debug": 1},
        {"debug": "stats"},
        {"debug": [["stats"]]},
        {"debug": iter(["stats"])},
        {"name": ""},
        {"name": None},
        {"name": "a.b"},
        {"printer": True},
        {"on_end": "x"},
        {"heartbeat": 1e12},
        {"max_streams": True},
        {"retry": 10**18},
    ],
    ids=lambda wrong: str(wrong).partition(" at 0x")[0],  # the same in every process
)
def test_a_blueprint_is_not_made_of_what_does_not_work(upstream: Upstream, wrong: Any) -> None:
    (name,) = wrong
    with pytest.raises(InvalidSetting, match=f"^{name}: expected .*got "):
        create_blueprint(**{**({} if name == "relay" else {"upstream": upstream}), **wrong})


def test_an_upstream_beside_a_relay_is_refused_for_the_relay_has_its_own(upstream: Upstream) -> None:
    with pytest.raises(InvalidSetting, match=r"^upstream: expected None beside a relay"):
        create_blueprint(upstream, relay=Relay(upstream))


def test_whoever_gives_a_dialect_in_place_of_its_name_is_told_the_name(upstream: Upstream) -> None:
    with pytest.raises(InvalidSetting, match='expected its name, "openai", got the Dialect itself'):
        create_blueprint(upstream, dialect=OPENAI)  # type: ignore[arg-type]
