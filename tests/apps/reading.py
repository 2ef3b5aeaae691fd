"""Apps for `flaskstream check` that read an upstream, each in its own way, and libraries that have lost theirs."""

from __future__ import annotations

import os

import requests
import urllib3
from flask import Flask, Response

from flaskstream import Upstream, event_stream


def reads():
    """A view for each way to read, of the upstream whose URL the environment names."""
    app = Flask("reads")

    def view(name):
        def decorate(read):
            def body():
                with requests.get(os.environ["UPSTREAM"], stream=True) as response:
                    yield from read(response)

            app.add_url_rule(f"/{name}", name, lambda: Response(body(), mimetype="text/event-stream"))

        return decorate

    @view("iter_lines")
    def by_iter_lines(response):
        for line in response.iter_lines():  # iter_lines
            yield line + b"\n"

    @view("iter_content")
    def by_iter_content(response):
        yield from response.iter_content(None)  # iter_content

    @view("text")
    def by_text(response):
        yield from response.text.splitlines(True)  # text

    @view("single")
    def byte_by_byte(response):
        yield from response.iter_content(1)

    @app.route("/kit")
    @event_stream
    def kit():
        with Upstream(os.environ["UPSTREAM"]).open("", {}) as answer:
            for chunk in answer.chunks():
                yield chunk.decode()

    return app


def in_place_of_urllib3():
    """The same with a library under the name of urllib3 that has lost its way to read what is there."""

    def waits(self, *args, **kwargs):
        body = self.read(decode_content=True)
        return iter([body] if body else [])

    urllib3.HTTPResponse.stream = urllib3.HTTPResponse.read_chunked = waits
    urllib3.HTTPResponse.read1 = lambda self, *args, **kwargs: self.read(decode_content=True)
    return reads()


def without_an_upstream():
    """An app that reads none, beside such a library."""
    in_place_of_urllib3()
    app = Flask("without_an_upstream")
    app.add_url_rule("/plain", "plain", lambda: Response(str(n) for n in range(9)))
    return app
