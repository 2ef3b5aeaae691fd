"""The helpdesk as it was found: every answer arrives all at once.

gunicorn -c ../../gunicorn.conf.py before:app
"""

import json
import os
import time

import requests
import size_log
from accounts import accounts
from extensions import db
from flask import Flask, Response, render_template, request, session, stream_with_context


def create_app():
    app = Flask(__name__)
    app.secret_key = "a secret of this sample"
    app.config["MODEL_URL"] = os.environ["FLASKSTREAM_UPSTREAM"]
    db.init_app(app)
    size_log.init_app(app)
    app.register_blueprint(accounts)

    @app.route("/")
    def home():
        return render_template("home.html")

    @app.route("/assistant/chat")
    def chat():
        def events():
            question = {"role": "user", "content": request.args["q"]}
            answer = requests.post(
                app.config["MODEL_URL"] + "/chat/completions",
                json={"model": "tick", "messages": [question], "stream": True},
            )
            for line in answer.iter_lines():
                if line.startswith(b"data: {"):
                    token = json.loads(line[6:])["choices"][0]["delta"].get("content")
                    if token:
                        yield f"data: {json.dumps({'t': token})}\n\n"
            yield "event: done\ndata: {}\n\n"

        return Response(stream_with_context(events()), mimetype="text/event-stream")

    @app.route("/backup")
    def backup():
        def events():
            for percent in range(0, 101, 10):
                step = {"percent": percent, "for": session["name"]}
                yield f"data: {json.dumps(step)}\n\n"
                time.sleep(0.1)
            yield "event: done\ndata: {}\n\n"

        return Response(stream_with_context(events()), mimetype="text/event-stream")

    return app


app = create_app()
