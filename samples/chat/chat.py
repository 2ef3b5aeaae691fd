"""A chat in an app with templates, a login and protection against forged requests; a reload loses nothing of an answer.

    pip install flask-wtf
    gunicorn -c ../../gunicorn.conf.py chat:app

static/chat.js is the page's side, and static/login.js leaves nothing of it to the next user. FLASKSTREAM_UPSTREAM,
_API_KEY and _MODEL name whom it asks, FLASKSTREAM_STORE where answers are kept while they are read.
"""

import os

from flask import Flask, redirect, render_template, request, session, url_for
from flask_wtf.csrf import CSRFError, CSRFProtect

from flaskstream import Upstream, create_blueprint
from flaskstream.settings import Settings

PASSWORDS = {"ada": "lovelace", "grace": "hopper"}  # a real app has a table, of hashes
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)

csrf = CSRFProtect()


def owner():
    return session.get("user")


def authorize(stream):
    """Let in who is logged in, from a page of ours: a link on a foreign one is a GET, which no token protects."""
    return "user" in session and request.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"


def create_app():
    app = Flask(__name__)
    app.secret_key = os.environ.get("SECRET_KEY", "a secret of this sample")
    app.config["SESSION_COOKIE_SAMESITE"] = "Lax"
    app.config["WTF_CSRF_TIME_LIMIT"] = None  # as long as the login: a page that stays open asks again after hours
    csrf.init_app(app)

    settings = Settings.from_environment()
    upstream = Upstream(os.environ["FLASKSTREAM_UPSTREAM"], settings.api_key, settings.model)
    blueprint = create_blueprint(upstream, store=settings.store, owner=owner, authorize=authorize)
    app.register_blueprint(blueprint, url_prefix="/stream")

    @app.route("/")
    def chat():
        return render_template("chat.html") if "user" in session else redirect(url_for("login"))

    @app.route("/login", methods=["GET", "POST"])
    def login():
        if request.method == "GET":
            return redirect(url_for("chat")) if "user" in session else render_template("login.html")
        name = request.form.get("name")
        if name not in PASSWORDS or PASSWORDS[name] != request.form.get("password"):
            return render_template("login.html", is_wrong=True), 403
        session.clear()  # a page of whoever was here before has a token that is no longer good
        session["user"] = name
        return redirect(url_for("chat"))

    @app.route("/logout", methods=["POST"])
    def logout():
        session.clear()
        return redirect(url_for("login"))

    @app.errorhandler(CSRFError)
    def forged(error):
        message = f"Please load this page again. ({error.description})"
        if request.blueprint == "flaskstream":
            return {"error": {"code": "forged", "message": message}}, 400  # chat.js shows the message
        return message, 400, {"Content-Type": "text/plain"}

    @app.after_request
    def restrict(response):
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        if response.mimetype == "text/html":
            response.headers["Cache-Control"] = "no-store"  # the back button shows it to nobody after a logout
        return response

    return app


app = create_app()
