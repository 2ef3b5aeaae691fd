"""The kit itself as it is measured: each feature of the relay is on. `BENCH_STORE` names a store."""

from __future__ import annotations

import os
from typing import Iterator

from flask import Flask

from bench import emitting
from flaskstream import Upstream, create_blueprint, event_stream

app = Flask(__name__)
app.register_blueprint(
    create_blueprint(
        Upstream(os.environ["BENCH_UPSTREAM"], api_key="sk-bench"),
        os.environ.get("BENCH_STORE"),
        orphan_timeout=0.5,  # the answers of the bench have no end: when their clients are gone, they would go on
        debug=["stats", "model"],  # the load generator tells the upstream by the model's name what it wants
        heartbeat=float(os.environ.get("BENCH_HEARTBEAT", "15")),
        max_duration=3600,
        max_streams=20_000,
    ),
)


@app.route("/emit")
@event_stream
def emit() -> Iterator[dict[str, str]]:
    for text in emitting.paced():
        yield {"t": text}


@app.route("/")
def index() -> str:
    return "ready"
