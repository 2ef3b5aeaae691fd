"""Apps for `flaskstream check`: views that return an iterator over what is all there, and some that look like them."""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import os
import queue
import threading
import time
import zlib
from urllib.parse import urlsplit

from flask import Flask, Response

EVENTS = functools.partial(Response, mimetype="text/event-stream")


def tokens():
    for n in range(6):
        yield f"token {n}"
        time.sleep(0.03)


def events():
    for token in tokens():
        yield f"data: {token}\n\n"


def in_a_thread(done=None):
    made = queue.Queue()

    def work():
        for event in events():  # thread
            made.put(event)
        made.put(None)

    thread = threading.Thread(target=work)
    thread.start()
    if done:
        thread.join()
    return iter(made.get, None)


def collecting():
    app = Flask("collecting")

    @app.route("/appended")
    def appended():
        out = []
        for event in events():  # appended
            out.append(event)
        return EVENTS(iter(out))

    @app.route("/list")
    def a_list():
        return EVENTS(iter(list(events())))  # list

    @app.route("/expression")
    def expression():
        return EVENTS(event for event in tuple(events()))  # expression

    @app.route("/framed")
    def framed():
        made = list(tokens())  # framed
        return EVENTS(f"data: {token}\n\n" for token in made)

    @app.route("/file")
    def a_file():
        return EVENTS(io.BytesIO("".join(events()).encode()))  # file

    @app.route("/thread")
    def thread():
        return EVENTS(in_a_thread(done=True))

    @app.route("/literal")
    def literal():
        return EVENTS(iter(["data: 1\n\n", "data: 2\n\n"]))

    @app.route("/waits")
    def waits():
        time.sleep(0.6)  # of whatever it does, nothing is to be seen
        return EVENTS(map("data: {}\n\n".format, range(6)))

    @app.route("/gzip")
    def in_gzip():
        def body():
            compressor = zlib.compressobj(wbits=31)
            for event in events():
                yield compressor.compress(event.encode())
            yield compressor.flush()

        return EVENTS(body(), headers={"Content-Encoding": "gzip"})

    return app


def upstream_first():
    """Views that read their whole upstream, whose URL the environment names, before they return."""
    app = Flask("upstream_first")
    with contextlib.suppress(ImportError):
        import httpx

    @app.route("/httpx")
    def by_httpx():
        text = httpx.get(os.environ["UPSTREAM"]).text  # httpx
        return EVENTS(line + "\n" for line in text.splitlines())

    @app.route("/http.client")
    def by_http_client():
        url = urlsplit(os.environ["UPSTREAM"])
        connection = http.client.HTTPConnection(url.netloc)
        connection.request("GET", url.path)
        body = connection.getresponse().read()  # http.client
        connection.close()
        return EVENTS(iter(body.splitlines(True)))

    return app


def streaming():
    """Views that stream, and run a generator of their own first."""
    app = Flask("streaming")

    @app.route("/thread")
    def thread():
        return EVENTS(in_a_thread())

    @app.route("/passthrough")
    def passthrough():
        return EVENTS(events(), direct_passthrough=True)

    @app.route("/echo")
    def echo():
        words = list(word.strip() for word in ("one", "two ", " three", "four"))  # noqa: C400 - a generator that is run
        return EVENTS(f"data: {word}\n\n" for word in words)

    @app.route("/other")
    def other():
        prompt = "".join(tokens())

        def body():
            yield f"data: {prompt}\n\n"
            yield from events()

        return EVENTS(body())

    @app.route("/gzip")
    def in_gzip():
        def body():
            compressor = zlib.compressobj(wbits=31)
            for event in events():
                yield compressor.compress(event.encode()) + compressor.flush(zlib.Z_SYNC_FLUSH)
            yield compressor.flush()

        return EVENTS(body(), headers={"Content-Encoding": "gzip"})

    return app
