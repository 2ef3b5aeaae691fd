"""The loop that most people write first: `requests`, `iter_lines()`, `yield`.

Served by gunicorn with a gevent worker, as the kit is.
"""

from __future__ import annotations

import json
import os
from typing import Iterator

import requests
from flask import Flask, Response, request

from bench import emitting

UPSTREAM = os.environ["BENCH_UPSTREAM"]

app = Flask(__name__)


@app.route("/v1/chat/completions", methods=["POST"])
def completions() -> Response:
    payload = request.get_json()

    def generate() -> Iterator[bytes]:
        with requests.post(UPSTREAM + "/chat/completions", json=payload, stream=True, timeout=60) as answer:
            for line in answer.iter_lines():
                if line:
                    yield line + b"\n\n"

    return Response(generate(), content_type="text/event-stream")


@app.route("/emit")
def emit() -> Response:
    def generate() -> Iterator[str]:
        for text in emitting.paced():
            yield f"data: {json.dumps({'t': text})}\n\n"

    return Response(generate(), content_type="text/event-stream")


@app.route("/")
def index() -> str:
    return "ready"
