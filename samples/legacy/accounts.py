"""Who is there: a login that the session remembers, and a hook that lets nobody else in."""

from extensions import db
from flask import Blueprint, g, redirect, render_template, request, session, url_for

accounts = Blueprint("accounts", __name__)


@accounts.before_app_request
def load_user():
    g.user = db.user(session.get("name"))
    is_welcome = g.user is not None or request.endpoint == "accounts.login"
    return None if is_welcome else redirect(url_for("accounts.login"))


@accounts.route("/login", methods=["GET", "POST"])
def login():
    user = db.user(request.form.get("name"))
    if user is None or user["password"] != request.form.get("password"):
        return render_template("login.html"), 200 if request.method == "GET" else 403
    session["name"] = user["name"]
    return redirect(url_for("home"))
