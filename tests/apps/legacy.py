"""An app as they were written ten years ago: it takes hold of requests, and so of ssl, and knows nothing of the kit."""

from __future__ import annotations

import ssl
import time

import requests
from flask import Flask, Response, jsonify, stream_with_context

INTERVAL_SECONDS = 0.1
TICKS = 6


def create_app(name="legacy"):
    app = Flask(name)

    @app.route("/ticks")
    def ticks():
        def body():
            for n in range(TICKS):
                yield f"data: {n}\n\n"
                time.sleep(INTERVAL_SECONDS)

        return Response(stream_with_context(body()), mimetype="text/event-stream")

    @app.route("/tls")
    def tls():
        adapter = requests.adapters.HTTPAdapter()  # builds a context where this requests does
        adapter.close()
        context = ssl.create_default_context()
        return jsonify(name=app.name, context=type(context).__module__, version=int(context.minimum_version))

    return app


application = create_app()
