"""The helpdesk with flaskstream: every token arrives by itself. Nothing else has changed, the hooks included.

gunicorn -c ../../gunicorn.conf.py after:app
"""

import os
import time

import size_log
from accounts import accounts
from extensions import db
from flask import Flask, render_template, session

from flaskstream import Upstream, create_blueprint, event_stream


def create_app():
    app = Flask(__name__)
    app.secret_key = "a secret of this sample"
    app.config["MODEL_URL"] = os.environ["FLASKSTREAM_UPSTREAM"]
    db.init_app(app)
    size_log.init_app(app)
    app.register_blueprint(accounts)
    key, model = os.environ.get("FLASKSTREAM_API_KEY"), os.environ.get("FLASKSTREAM_MODEL")
    upstream = Upstream(app.config["MODEL_URL"], key, model)
    app.register_blueprint(create_blueprint(upstream), url_prefix="/assistant")

    @app.route("/")
    def home():
        return render_template("home.html")

    @app.route("/backup")
    @event_stream
    def backup():
        for percent in range(0, 101, 10):
            yield {"percent": percent, "for": session["name"]}
            time.sleep(0.1)

    return app


app = create_app()
