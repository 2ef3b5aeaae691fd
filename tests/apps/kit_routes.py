"""For `flaskstream check`: the blueprint with all that it can mount, with a store and without one."""

from __future__ import annotations

from flask import Flask

from flaskstream import Upstream, create_blueprint, event_stream

upstream = Upstream("http://127.0.0.1:9/v1")
app = Flask(__name__)
app.register_blueprint(
    create_blueprint(upstream, debug=["probe", "stats"], store="memory:", authorize=lambda stream: True),
    url_prefix="/stream",
)
app.register_blueprint(create_blueprint(upstream, name="other"), url_prefix="/other")


@app.route("/mine")
@event_stream
def mine():
    yield "a token"
