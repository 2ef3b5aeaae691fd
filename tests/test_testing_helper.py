"""The public test helper, on apps as its users write them: plain Flask, a generator, no kit."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import socket
import textwrap
import threading
import time

import flask
import pytest
from flask import Flask, Response

import flaskstream.testing
from flaskstream.testing import RequestStuck, StreamBroken, open_stream, serve

PATIENCE = 10  # seconds that no test needs, unless it fails
TICK = 0.05  # seconds


def sse(body, **options):
    return Response(body, mimetype="text/event-stream", **options)


class Ticks:
    """An app that ticks until its client goes, and what became of its view."""

    def __init__(self):
        self.began = threading.Event()
        self.ended = threading.Event()  # the generator's finally ran
        self.closed = threading.Event()  # the response's close callback ran
        self.app = Flask("ticks")
        self.app.route("/")(self.view)

    def view(self):
        response = sse(self.body())
        response.call_on_close(self.closed.set)
        return response

    def body(self):
        try:
            self.began.set()
            for n in itertools.count():
                yield f": alive\ndata: {n}\n\n"
                time.sleep(TICK)
        finally:
            self.ended.set()


@pytest.fixture
def ticks():
    ticks = Ticks()
    with serve(ticks.app) as server:
        ticks.url = server.url
        yield ticks


@contextlib.contextmanager
def streamed(view, **options):
    """Serve one view and open its stream."""
    app = Flask("one_view")
    app.route("/", methods=["GET", "POST"])(view)
    with serve(app) as server, open_stream(server.url, timeout=PATIENCE, **options) as stream:
        yield stream


def test_three_events_of_an_endless_stream_then_close_and_its_finally_runs(ticks):
    with open_stream(ticks.url) as stream:
        events = stream.take(3)
        stream.close()
        assert [timed.event.data for timed in events] == ["0", "1", "2"]
        assert ticks.ended.wait(PATIENCE)
        assert ticks.closed.wait(PATIENCE)
        assert stream.take(3) == []
    assert stream.ended == "left"


def test_leaving_the_block_ends_the_view_too(ticks):
    with open_stream(ticks.url) as stream:
        stream.take(1)
    assert ticks.closed.wait(PATIENCE)


def test_events_have_the_times_at_which_they_came(ticks):
    with open_stream(ticks.url) as stream:
        at = [timed.at for timed in stream.take(5)]
    assert at[0] > 0
    assert at == sorted(at)
    assert len(set(at)) > 1  # not in one lump
    assert at[4] - at[0] > TICK  # of four ticks; machine noise may delay the first


def test_each_event_is_here_before_the_view_makes_the_next():
    go_on = threading.Semaphore(0)

    def body():
        for n in range(5):
            yield f"data: {n}\n\n"
            assert go_on.acquire(timeout=PATIENCE)

    with streamed(lambda: sse(body())) as stream:
        for n, timed in enumerate(stream):
            assert timed.event.data == str(n)
            go_on.release()
    assert n == 4


def test_take_goes_on_where_it_stopped_and_gives_less_at_the_end():
    with streamed(lambda: sse(f"data: {n}\n\n" for n in range(5))) as stream:
        assert [timed.event.data for timed in stream.take(2)] == ["0", "1"]
        assert [timed.event.data for timed in stream] == ["2", "3", "4"]
        assert stream.take(2) == []


def test_comments_are_heard(ticks):
    with open_stream(ticks.url) as stream:
        (first,) = stream.take(1)
        assert [(comment.text, comment.at) for comment in stream.comments] == [("alive", first.at)]


def test_status_and_headers_are_there_before_the_body():
    go_on = threading.Event()

    def body():
        assert go_on.wait(PATIENCE)
        yield "data: x\n\n"

    def view():
        response = sse(body(), status=202)
        response.headers.add("X-Two", "a")
        response.headers.add("X-Two", "b")
        return response

    app = Flask("slow_body")
    app.route("/")(view)

    def empty_first(environ, start_response):
        # WSGI servers send the head with the first piece of the body, which may be empty.
        return itertools.chain([b""], app(environ, start_response))

    with serve(empty_first) as server, open_stream(server.url) as stream:
        assert stream.status == 202
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers.getlist("X-Two") == ["a", "b"]
        go_on.set()
        assert [timed.event.data for timed in stream] == ["x"]


def test_json_is_posted():
    def view():
        seen = {"method": flask.request.method, "json": flask.request.get_json(), "x": flask.request.headers["X-One"]}
        return sse([f"data: {json.dumps(seen)}\n\n"])

    with streamed(view, json={"q": "ä"}, headers={"X-One": "1"}) as stream:
        assert [timed.event.json() for timed in stream] == [{"method": "POST", "json": {"q": "ä"}, "x": "1"}]


def test_any_method_can_be_sent():
    app = Flask("method")
    app.route("/", methods=["DELETE"])(lambda: flask.request.method)
    with serve(app) as server, open_stream(server.url, "DELETE") as stream:
        assert stream.text() == "DELETE"


def test_an_answer_that_is_no_stream_is_read_as_text_or_json():
    body = "nö".encode("latin-1")
    with streamed(lambda: Response(body, status=404, content_type="text/plain; charset=latin-1")) as stream:
        assert (stream.status, stream.text()) == (404, "nö")
    with streamed(lambda: ({"error": "nö"}, 400)) as stream:
        assert (stream.status, stream.json()) == (400, {"error": "nö"})


# Nothing hangs, and nothing that is broken looks whole.


def test_silence_fails_the_test_instead_of_hanging_it():
    go_on = threading.Event()

    def body():
        yield "data: 0\n\n"
        go_on.wait(PATIENCE)

    app = Flask("silent")
    app.route("/")(lambda: sse(body()))
    with serve(app) as server, open_stream(server.url, timeout=0.5) as stream:
        with pytest.raises(StreamBroken, match=r"after 1 events: expected more within 0\.5 s, got nothing") as caught:
            stream.take(2)
        assert caught.value.ended == "timeout"
        go_on.set()


@pytest.mark.parametrize("read", [list, lambda stream: stream.text()], ids=["events", "text"])
def test_a_stream_that_does_not_end_fails_instead_of_hanging(ticks, read):
    broken = pytest.raises(StreamBroken, match=r"expected the end within 0\.5 s, got none")
    with open_stream(ticks.url, max_seconds=0.5) as stream, broken:
        read(stream)
    assert ticks.closed.wait(PATIENCE)


def test_a_view_that_raises_in_the_middle_is_not_a_stream_that_ended():
    def body():
        yield "data: 0\n\n"
        raise ZeroDivisionError("of the view")

    with streamed(lambda: sse(body())) as stream:
        (first,) = stream.take(1)
        assert first.event.data == "0"
        if "Transfer-Encoding" not in stream.headers:
            pytest.skip("this Werkzeug serves HTTP/1.0, where a cut cannot be told from an end")
        with pytest.raises(StreamBroken, match="after 1 events: expected the final chunk, got the end"):
            stream.take(1)


def test_an_event_without_its_blank_line_is_said():
    broken = pytest.raises(StreamBroken, match="after 1 events: expected a blank line after the last event")
    with streamed(lambda: sse(["data: 0\n\n", "data: 1\n"])) as stream, broken:
        stream.take(2)


def test_no_server_is_no_stream():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    with pytest.raises(StreamBroken, match="expected a connection, got") as caught, open_stream(url):
        raise AssertionError("not reached")
    assert caught.value.ended == "refused"


# The server.


def test_streams_are_served_at_the_same_time():
    together = threading.Barrier(4)

    def body():
        together.wait(PATIENCE)
        yield "data: x\n\n"

    app = Flask("together")
    app.route("/")(lambda: sse(body()))

    def client(url):
        with open_stream(url, timeout=PATIENCE) as stream:
            return [timed.event.data for timed in stream]

    with serve(app) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(client, [server.url] * 4)) == [["x"]] * 4


def test_when_the_server_ends_nothing_of_it_is_left():
    threads = set(threading.enumerate())
    ticks = Ticks()
    with contextlib.ExitStack() as clients:
        with serve(ticks.app) as server:
            address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
            idle, streaming = (clients.enter_context(socket.create_connection(address)) for _ in range(2))
            streaming.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert ticks.began.wait(PATIENCE)
        # Both clients are still there; the server is gone.
        assert idle.recv(1) == b""
        assert ticks.ended.is_set()
        assert ticks.closed.is_set()
        assert not set(threading.enumerate()) - threads
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)


def test_a_view_that_does_not_end_is_named():
    go_on = threading.Event()
    app = Flask("stuck")

    @app.route("/stuck")
    def stuck():
        def body():
            yield "data: 0\n\n"
            go_on.wait(PATIENCE)

        return sse(body())

    named = pytest.raises(RequestStuck, match=r"expected every request to end within .* got GET /stuck\?a=b running")
    with named, serve(app, join_timeout=0.2) as server, open_stream(server.url + "/stuck?a=b") as stream:
        stream.take(1)
    go_on.set()


def test_what_the_test_raised_matters_more():
    go_on = threading.Event()

    def body():
        yield "data: 0\n\n"
        go_on.wait(PATIENCE)

    app = Flask("stuck")
    app.route("/")(lambda: sse(body()))
    raised = pytest.raises(ZeroDivisionError)
    with raised, serve(app, join_timeout=0.2) as server, open_stream(server.url) as stream:
        stream.take(1)
        raise ZeroDivisionError
    go_on.set()


def test_the_example_of_the_documentation_works():
    example = textwrap.dedent(flaskstream.testing.__doc__.partition("it comes:\n")[2].partition("\nAn app that")[0])
    names = {"__name__": __name__}
    exec(example, names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0]()
