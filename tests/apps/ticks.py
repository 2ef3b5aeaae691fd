"""Streams for the tests of servers. Each tick says when it was made; `/happened` tells what became of the others."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
import time

from flask import Flask, Response, g, jsonify, request

from flaskstream import event_stream
from flaskstream.contexts import Carrier
from flaskstream.dialects import OPENAI
from flaskstream.errors import UpstreamTruncated
from flaskstream.options import StreamOptions
from flaskstream.response import respond
from flaskstream.wire import FaithfulWire

app = Flask(__name__)
happened: list[str] = []
variable = contextvars.ContextVar("variable")
local = threading.local()


def ticks():
    for n in range(int(request.args["count"])):
        yield {"n": n, "made_at": time.monotonic()}
        time.sleep(float(request.args["interval"]))


app.add_url_rule("/ticks", "ticks", event_stream(ticks))


@app.route("/joined")
def joined() -> Response:
    """The same ticks, made by the usual mistake."""
    return Response("".join(f"data: {json.dumps(tick)}\n\n" for tick in ticks()), mimetype="text/event-stream")


@app.route("/endless")
@event_stream(heartbeat=0.05, on_end=lambda report: happened.append(f"on_end {report.reason}"))
def endless():
    happened.append("began")
    try:
        while True:
            yield "tick"
            time.sleep(0.02)
    finally:
        happened.append("closed")


@app.route("/silent")
@event_stream(heartbeat=0.05)
def silent():
    """Say one thing and wait for what never comes; only in a greenlet can that be interrupted."""
    try:
        yield "waiting"
        time.sleep(3600)
    except GeneratorExit:
        happened.append("interrupted")
        raise


@app.route("/fails")
@event_stream
def fails():
    yield "first"
    raise ValueError("of the view")


@app.route("/cut")
def cut():
    """Fail as the routes do that speak as the upstream does, when it breaks off."""

    def blocks():
        yield b"data: first\n\n"
        raise UpstreamTruncated("expected more from the upstream, got the end")

    carrier = Carrier(keep_request=False)
    return respond(carrier.call_view(blocks), carrier, FaithfulWire(OPENAI), StreamOptions())


@app.route("/refuses")
@event_stream
def refuses():
    raise ValueError("of the view")
    yield


@app.route("/odd")
@event_stream
def odd():
    yield from ["", b"", None, "a"]


@app.route("/busy")
@event_stream
def busy():
    """Compute for so many seconds before each tick, as a model on a CPU does."""
    for _ in range(int(request.args["count"])):
        end = time.perf_counter() + float(request.args["seconds"])
        while time.perf_counter() < end:
            pass
        yield {"made_at": time.monotonic()}


@app.route("/names/<name>")
@event_stream
def names(name):
    """Yield the name as everything that could mix up two streams has it."""
    token = variable.set(name)
    g.name = name

    def items():
        local.name = name
        try:
            for _ in range(10):
                yield [variable.get(), g.name, request.view_args["name"], local.name]
                time.sleep(0.01)
        finally:
            variable.reset(token)

    return items()


if hasattr(Flask, "ensure_sync"):

    @app.route("/async/<name>")
    @event_stream
    async def from_async_view(name):
        await asyncio.sleep(0.01)
        return (letter for letter in name)


@app.route("/happened")
def what_happened() -> Response:
    told = list(happened)
    del happened[: len(told)]
    return jsonify(told)
