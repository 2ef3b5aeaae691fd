"""Who may ask, and how much: looked at on every route, before anything else is done."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from typing import Any, Callable, Iterator
from urllib.parse import quote_plus

import pytest
from answer_vectors import DONE, A
from apps.relays import MOST_BYTES, create_app
from conftest import TESTS
from flask import Flask, Response, abort, redirect, request
from in_process import waitress, werkzeug
from raw_client import Connection
from raw_upstream import RawUpstream, answer
from relay_client import post

from flaskstream import create_blueprint
from flaskstream.doctor.measure import record
from flaskstream.errors import InvalidSetting
from flaskstream.guard import MAX_BODY_BYTES
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.testing import open_stream, serve
from flaskstream.upstream import Upstream

OK = answer("chunked", A, DONE)


# Who.


def app_with(upstream: Upstream, **options: Any) -> Flask:
    app = Flask(__name__)
    blueprint = create_blueprint(upstream, debug=True, **options)
    app.register_blueprint(blueprint, url_prefix="/s")
    app.register_blueprint(blueprint, url_prefix="/again", name="again")
    return app


def routes(app: Flask) -> Iterator[tuple[str, str]]:
    """Every method and path of the blueprint, whatever there is."""
    for rule in app.url_map.iter_rules():
        if rule.endpoint.startswith(("flaskstream.", "again.")):
            _, path = rule.build(dict.fromkeys(rule.arguments, "a")) or ("", "")
            for method in rule.methods or ():
                yield method, path


def ask(app: Flask, method: str, path: str, model: str = "tick") -> Any:
    fields = {"q": "hello", "messages": [{"role": "user", "content": "hello"}], "model": model}
    body = {"json": fields} if method in ("POST", "PUT", "PATCH") else {}
    return app.test_client().open(path, method=method, **body)


def test_there_are_routes_to_be_looked_at(upstream: Upstream) -> None:
    found = set(routes(app_with(upstream)))
    assert {("GET", "/s/chat"), ("HEAD", "/s/chat"), ("POST", "/s/chat"), ("OPTIONS", "/s/chat")} <= found
    assert {("POST", "/s/v1/chat/completions"), ("POST", "/s/v1/messages"), ("GET", "/s/stats")} <= found
    assert {("GET", "/s/probe"), ("POST", "/again/chat"), ("GET", "/again/stats")} <= found


def refuses_by_abort(stream: Any) -> Any:
    abort(401)


def breaks(stream: Any) -> Any:
    raise RuntimeError("the session store is down")


ANSWERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "False": (lambda stream: False, 403),
    "None": (lambda stream: None, 403),
    "a response": (lambda stream: Response("no", 418), 418),
    "a redirect": (lambda stream: redirect("/login"), 302),
    "a tuple": (lambda stream: ("no", 451), 451),
    "a dict and a status": (lambda stream: ({"error": "no"}, 402), 402),
    "abort": (refuses_by_abort, 401),
    "an exception": (breaks, 500),
    "1": (lambda stream: 1, 500),
    "0": (lambda stream: 0, 500),
    "an object": (lambda stream: object(), 500),
}


@pytest.mark.parametrize(("authorize", "status"), ANSWERS.values(), ids=ANSWERS)
def test_whoever_is_not_let_through_reaches_no_route_and_no_upstream(
    upstream: Upstream, raw_upstream: RawUpstream, authorize: Any, status: int
) -> None:
    app = app_with(upstream, authorize=authorize)
    app.logger.disabled = True
    before = len(raw_upstream.asked)
    for method, path in routes(app):
        if method != "OPTIONS":
            assert ask(app, method, path).status_code == status, (method, path)
    assert len(raw_upstream.asked) == before


def without_hooks(app: Flask) -> Flask:
    """The app as Flask 2.0.1 has it, which forgets a blueprint's hooks when that is registered again."""
    app.before_request_funcs.clear()
    return app


def test_every_view_is_guarded_where_flask_forgets_the_hook(upstream: Upstream, raw_upstream: RawUpstream) -> None:
    app = without_hooks(app_with(upstream, authorize=lambda stream: False))
    small = without_hooks(app_with(upstream, max_body_bytes=10))
    before = len(raw_upstream.asked)
    for method, path in routes(app):
        if method != "OPTIONS":
            assert ask(app, method, path).status_code == 403, (method, path)
        if method == "POST":
            assert ask(small, method, path).status_code == 413, path
    assert len(raw_upstream.asked) == before


@pytest.mark.parametrize("prepared", [lambda app: app, without_hooks])
def test_a_route_that_the_app_adds_to_the_blueprint_is_guarded_too(upstream: Upstream, prepared: Any) -> None:
    asked: list[str] = []
    blueprint = create_blueprint(
        upstream, authorize=lambda stream: asked.append(request.path) or "secret" in request.args
    )
    blueprint.add_url_rule("/mine/<name>", "mine", lambda name: name)
    app = Flask(__name__)
    app.register_blueprint(blueprint)
    client = prepared(app).test_client()
    assert client.get("/mine/a").status_code == 403
    assert client.get("/mine/a?secret=1").data == b"a"
    assert asked == ["/mine/a", "/mine/a"]


def test_who_is_refused_reaches_no_hook_of_the_blueprint_either(upstream: Upstream) -> None:
    reached: list[str] = []
    blueprint = create_blueprint(upstream, authorize=lambda stream: False)
    blueprint.before_request(lambda: reached.append(request.path))
    app = Flask(__name__)
    app.register_blueprint(blueprint)
    assert app.test_client().get("/chat?q=a").status_code == 403
    assert reached == []


def test_an_async_view_is_still_one(upstream: Upstream) -> None:
    pytest.importorskip("asgiref", reason="Flask calls async views with asgiref, which is not installed")
    if not hasattr(Flask, "ensure_sync"):
        pytest.skip("this Flask calls no async views")

    async def mine() -> str:
        return "here"

    blueprint = create_blueprint(upstream)
    blueprint.add_url_rule("/mine", "mine", mine)
    app = Flask(__name__)
    app.register_blueprint(blueprint)
    assert app.test_client().get("/mine").data == b"here"


def test_who_is_refused_is_told_in_json_that_nobody_keeps(upstream: Upstream) -> None:
    seen = ask(app_with(upstream, authorize=lambda stream: False), "POST", "/s/chat")
    assert json.loads(seen.data)["error"]["code"] == "forbidden"
    assert seen.headers["Cache-Control"] == "no-store"


def test_only_true_lets_through_and_it_is_asked_once_on_every_route(
    upstream: Upstream, raw_upstream: RawUpstream
) -> None:
    asked: list[tuple[str, str, Any]] = []

    def authorize(stream: Any) -> bool:
        asked.append((request.method, request.path, stream))
        return True

    app = app_with(upstream, authorize=authorize)
    model = raw_upstream.plays(OK)
    for method, path in routes(app):
        with contextlib.closing(ask(app, method, path + "?count=1", model)) as seen:
            assert seen.status_code not in (401, 403, 500), (method, path)
            seen.get_data()
    expected = {(method, path, None) for method, path in routes(app) if method != "OPTIONS"}
    assert set(asked) == expected and len(asked) == len(expected)
    assert len(raw_upstream.asked_for(model)) >= 3  # the answers were asked for


def test_a_question_about_the_options_is_answered_without_asking_who_and_does_nothing(
    upstream: Upstream, raw_upstream: RawUpstream
) -> None:
    app = app_with(upstream, authorize=breaks)
    before = len(raw_upstream.asked)
    for method, path in routes(app):
        if method == "OPTIONS":
            seen = ask(app, method, path)
            assert seen.status_code == 200 and "OPTIONS" in seen.headers["Allow"] and not seen.data
    assert len(raw_upstream.asked) == before


def test_routes_of_the_app_are_its_own_business(upstream: Upstream) -> None:
    app = app_with(upstream, authorize=lambda stream: False)
    app.add_url_rule("/health", "health", lambda: "fine")
    assert app.test_client().get("/health").data == b"fine"


def test_it_knows_the_session_and_the_headers_of_the_request(relays: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(OK)
    assert record(post(relays, "/for_friends/chat", {"q": "a", "model": model})).status == 403
    assert raw_upstream.asked_for(model) == []
    assert record(post(relays, "/for_friends/chat", {"q": "a", "model": model}, ("X-Friend", "yes"))).status == 200


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("authorize", True),
        ("authorize", "yes"),
        *(("max_body_bytes", value) for value in (0, -1, 1.5, "1", None, True)),
    ],
)
def test_what_is_no_setting_is_refused_by_name(upstream: Upstream, setting: str, value: Any) -> None:
    with pytest.raises(InvalidSetting, match=f"{setting}: expected"):
        create_blueprint(upstream, **{setting: value})


# How much.


@contextlib.contextmanager
def gunicorn(url: str, *arguments: str, config: str = "apps/gunicorn_gthread.py") -> Iterator[str]:
    with GunicornProcess({"upstream": url}, arguments, "apps.relays:create_app()", config, TESTS) as process:
        process.wait_until_it_answers()
        yield process.url
        process.kill()


SERVERS: dict[str, Callable[[str], Any]] = {
    "gevent": lambda url: gunicorn(url, config="python:flaskstream.gunicorn_conf"),
    "gthread": gunicorn,
    "werkzeug": lambda url: werkzeug(create_app(url)),
    "waitress": lambda url: waitress(create_app(url)),
}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, raw_upstream: RawUpstream) -> Iterator[str]:
    with SERVERS[request.param](raw_upstream.url) as url:
        yield url


def json_of(size: int, model: str) -> bytes:
    empty = json.dumps({"model": model, "messages": [{"role": "user", "content": ""}], "q": ""}).encode()
    return empty[:-2] + b"a" * (size - len(empty)) + empty[-2:]


def form_of(size: int, model: str) -> bytes:
    empty = f"model={quote_plus(model)}&q=".encode()
    return empty + b"a" * (size - len(empty))


BODIES = {"application/json": json_of, "application/x-www-form-urlencoded": form_of}


def by_length(body: bytes) -> bytes:
    return f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def in_chunks(body: bytes) -> bytes:
    pieces = [body[place : place + 7000] for place in range(0, len(body), 7000)]
    return b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in [*pieces, b""])


def sent(server: str, path: str, content_type: str, rest: bytes) -> tuple[int, bytes]:
    """Send a request as it is; return the status and the body."""
    first = f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {content_type}\r\n".encode()
    with Connection(server) as connection:
        connection.send(first + rest)
        # Not to the end of the connection: Werkzeug's server waits for the client's before it closes.
        while not is_whole(connection) and connection.read():
            pass
        return int(connection.head.split()[1]), connection.raw_body


def is_whole(connection: Connection) -> bool:
    length = re.search(rb"(?i)content-length: (\d+)", connection.head)
    return length is not None and len(connection.raw_body) >= int(length[1])


@pytest.mark.parametrize("framed", [by_length, in_chunks])
@pytest.mark.parametrize(("content_type", "body_of"), BODIES.items())
def test_a_body_of_the_most_bytes_is_taken_and_one_more_is_not(
    server: str, raw_upstream: RawUpstream, content_type: str, body_of: Any, framed: Any
) -> None:
    model = raw_upstream.plays(OK)
    status, body = sent(server, "/small/chat", content_type, framed(body_of(MOST_BYTES, model)))
    assert status == 200 and b'data: {"t":"a"}' in body
    status, body = sent(server, "/small/chat", content_type, framed(body_of(MOST_BYTES + 1, model)))
    assert status == 413
    assert b'"body_too_large"' in body and f"at most {MOST_BYTES} bytes".encode() in body
    (asked,) = raw_upstream.asked_for(model)
    assert len(str(asked.payload["messages"])) > MOST_BYTES * 0.99  # and the whole of it went on


@pytest.mark.parametrize("framed", [by_length, in_chunks])
@pytest.mark.parametrize("path", ["/small/v1/chat/completions", "/small/v1/messages"])
def test_the_routes_of_the_apis_are_limited_in_the_same_way(
    server: str, raw_upstream: RawUpstream, path: str, framed: Any
) -> None:
    whole = answer("length", b"{}", content_type="application/json")
    model = raw_upstream.plays(whole)
    assert sent(server, path, "application/json", framed(json_of(MOST_BYTES, model)))[0] == 200
    assert sent(server, path, "application/json", framed(json_of(MOST_BYTES + 1, model)))[0] == 413
    assert len(raw_upstream.asked_for(model)) == 1


def test_a_body_without_an_end_is_given_up_at_the_limit(relays: Any) -> None:
    """The client goes on sending; the answer is there as soon as too much is."""
    first = (
        b"POST /small/chat HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with Connection(relays.url) as connection:
        connection.send(first + b"1000\r\n" + b"a" * 0x1000 + b"\r\n")
        for _ in range(MOST_BYTES // 0x1000):
            connection.send(b"1000\r\n" + b"a" * 0x1000 + b"\r\n")
        connection.read_until(b"body_too_large")
        assert connection.head.startswith(b"HTTP/1.1 413 ")


BROKEN = {
    "a size that is none": b"zz\r\nabc\r\n0\r\n\r\n",
    "a size below zero": b"-5\r\nabc\r\n0\r\n\r\n",
    "no line end after it": b"3\r\nabcdef\r\n0\r\n\r\n",
    "cut in a chunk": b"ff\r\nabc",
    "cut between chunks": b"3\r\nabc\r\n",
    "nothing at all": b"",
}


@pytest.mark.parametrize("path", ["/plain/chat", "/small/v1/messages"])
@pytest.mark.parametrize("chunks", BROKEN.values(), ids=BROKEN)
def test_a_body_in_broken_chunks_is_the_client_s_mistake(
    server: str, chunks: bytes, path: str, request: pytest.FixtureRequest
) -> None:
    first = f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n".encode()
    with Connection(server) as connection:
        connection.send(first + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        connection.socket.shutdown(socket.SHUT_WR)
        connection.read_to_end()
    is_waitress = request.node.callspec.params["server"] == "waitress"  # which reads it all, and answers nobody else
    if connection.received or not is_waitress:
        assert connection.head.split()[1] == b"400", connection.received
        assert is_waitress or b'"bad_request"' in connection.raw_body


def test_what_it_is_asked_when_no_body_comes_is_no_mistake(server: str) -> None:
    with open_stream(server + "/small/stats") as stream:
        assert stream.status == 200
        stream.json()


def test_ten_megabytes_are_enough_for_pictures_unless_another_limit_is_named() -> None:
    assert MAX_BODY_BYTES == 10 * 2**20


@pytest.mark.parametrize("framed", [by_length, in_chunks])
@pytest.mark.parametrize(("of_app", "of_ours"), [(1000, MOST_BYTES), (MOST_BYTES, 1000)])
def test_the_limit_of_the_app_holds_too_and_the_smaller_one_counts(
    upstream: Upstream, raw_upstream: RawUpstream, of_app: int, of_ours: int, framed: Any
) -> None:
    model = raw_upstream.plays(OK)
    app = app_with(upstream, max_body_bytes=of_ours)
    app.config["MAX_CONTENT_LENGTH"] = of_app
    with serve(app) as server:
        assert sent(server.url, "/s/chat", "application/json", framed(json_of(1000, model)))[0] == 200
        status, body = sent(server.url, "/s/chat", "application/json", framed(json_of(1001, model)))
    assert status == 413 and b"at most 1000 bytes" in body
    assert len(raw_upstream.asked_for(model)) == 1


# A hook of the app's own has come first.


def hooked(upstream: Upstream, read: Callable[[], Any]) -> Flask:
    app = app_with(upstream, max_body_bytes=MOST_BYTES)

    @app.before_request
    def look() -> None:
        read()

    return app


HOOKS: dict[str, Callable[[], Any]] = {
    "get_data": lambda: request.get_data(),
    "get_json": lambda: request.get_json(silent=True),
    "form": lambda: request.form.get("q"),
    "values": lambda: request.values.get("q"),
}


@pytest.mark.parametrize("framed", [by_length, in_chunks])
@pytest.mark.parametrize(("content_type", "body_of"), BODIES.items())
@pytest.mark.parametrize("hook", HOOKS)
def test_a_body_that_a_hook_has_read_is_still_there(
    upstream: Upstream, raw_upstream: RawUpstream, hook: str, content_type: str, body_of: Any, framed: Any
) -> None:
    model = raw_upstream.plays(OK)
    with serve(hooked(upstream, HOOKS[hook])) as server:
        status, body = sent(server.url, "/s/chat", content_type, framed(body_of(1000, model)))
    assert status == 200, body
    assert b'data: {"t":"a"}' in body


@pytest.mark.parametrize("framed", [by_length, in_chunks])
def test_a_body_that_a_hook_has_read_is_limited_all_the_same(
    upstream: Upstream, raw_upstream: RawUpstream, framed: Any
) -> None:
    model = raw_upstream.plays(OK)
    with serve(hooked(upstream, HOOKS["get_json"])) as server:
        status, body = sent(server.url, "/s/chat", "application/json", framed(json_of(MOST_BYTES + 1, model)))
    assert status == 413 and b"body_too_large" in body
    assert raw_upstream.asked_for(model) == []
