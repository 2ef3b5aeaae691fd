"""An app for others to wrap, and what must still be true of its streams when they have."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time

from flask import Flask, Response, jsonify, request
from one_view import PATIENCE

from flaskstream import event_stream
from flaskstream.doctor.measure import Request, record
from flaskstream.testing import open_stream

TICK = 0.1  # seconds
COUNT = 6
HEARTBEAT = 0.5  # seconds

END = f'{{"events":{COUNT}}}'


def app_to_wrap(inside=contextlib.nullcontext):
    """A Flask app with a stream that ends and one that does not, and with the usual stream beside them.

    Args:
        inside: a context manager, entered for each tick around the `yield`.
    """
    app = Flask("wrapped")
    app.secret_key = "for tests"
    closed = app.closed = []

    def ticks():
        seconds = request.args.get("seconds", TICK, float)
        for n in range(COUNT):
            with inside():
                yield {"n": n, "made_at": time.monotonic(), "address": request.remote_addr}
            time.sleep(seconds)

    def endless():
        try:
            while True:
                with inside():
                    yield "tick"
                time.sleep(TICK / 2)
        finally:
            closed.append(time.monotonic())

    def fails():
        yield "one"
        raise ZeroDivisionError("of the view")

    def refuses():
        raise ZeroDivisionError("of the view")
        yield

    for view in (ticks, endless, fails, refuses):
        app.add_url_rule(f"/{view.__name__}", view.__name__, event_stream(heartbeat=HEARTBEAT)(view))

    @app.route("/usual")
    def usual():
        """The control: a stream that anybody may hold."""
        address = request.remote_addr

        def body():
            for n in range(COUNT):
                yield f"data: {n} {address} {'x' * 500}\n\n"
                time.sleep(TICK)

        return Response(body(), mimetype="text/event-stream")

    @app.route("/closed")
    def when_closed():
        told = list(closed)
        del closed[: len(told)]
        return jsonify(told)

    return app


def assert_prompt(url, *headers, path="/ticks", seconds=TICK):
    """Every tick is here before the next one is made, nobody has coded it, and the end is there. Returns the answer.

    Args:
        seconds: from tick to tick. Longer ones where many streams share two cores: they wait for each other as well.
    """
    recording = record(Request(f"{url}{path}?seconds={seconds}", headers=headers, timeout=PATIENCE))
    *ticks, end = recording.events
    assert (end.event.event, end.event.data) == ("done", END)
    assert recording.framing_complete and recording.header("Content-Encoding") is None
    late = [timed.at - timed.event.json()["made_at"] for timed in ticks]
    assert statistics.median(late) < seconds  # a stream that is held has half of all ticks
    assert sum(delay > seconds for delay in late) <= 1  # a busy machine may hold one
    return recording


def held_until_the_end(recording):
    """Tell whether somebody has kept the body until it was whole: nothing but a header of a coding came before."""
    first_content = next((chunk.at for chunk in recording.chunks if len(chunk.data) > 10), recording.ended_at)
    return first_content - recording.sent_at > (COUNT - 1) * TICK


def assert_closed_behind(url, *headers, path="/endless", within=2 * HEARTBEAT):
    """When its client leaves, the generator is closed, within so many seconds."""
    with open_stream(url + path, headers=dict(headers), timeout=PATIENCE) as stream:
        assert stream.take(1)
    left_at = time.monotonic()
    (closed_at,) = wait_until_closed(url)
    assert closed_at - left_at < within


def wait_until_closed(url):
    """When generators of `/endless` were closed since it was last asked; as soon as there is one."""
    deadline = time.monotonic() + PATIENCE
    told = []
    while not told and time.monotonic() < deadline:
        with open_stream(url + "/closed", timeout=PATIENCE) as answer:
            told = answer.json()
        time.sleep(0.01)
    return told


# Middlewares


def drop_close(app):
    """The usual way to break PEP 3333: a generator around the body, without a `finally`."""

    def middleware(environ, start_response):
        for piece in app(environ, start_response):  # noqa: UP028 - "yield from" would close it
            yield piece

    return middleware


def hold_on(app):
    """The same, and it keeps what it no longer reads, as a cycle of references does."""
    kept = []

    def middleware(environ, start_response):
        kept.append(app(environ, start_response))
        for piece in kept[-1]:  # noqa: UP028 - "yield from" would close it
            yield piece

    return middleware


def put_before(app):
    return lambda environ, start_response: itertools.chain([b""], app(environ, start_response))


def put_behind(app):
    return lambda environ, start_response: itertools.chain(app(environ, start_response), [b""])


def map_each(app):
    return lambda environ, start_response: map(bytes, app(environ, start_response))
