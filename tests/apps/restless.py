"""An app that has time for a heartbeat between two tokens: a blueprint for each form, and none waits for a status."""

from __future__ import annotations

from flask import Flask

from flaskstream import Upstream, create_blueprint
from flaskstream.settings import Settings
from flaskstream.wire import HEARTBEAT_FORMS

settings = Settings.from_environment()
app = Flask(__name__)
upstream = Upstream(settings.upstream)
for form in HEARTBEAT_FORMS:
    blueprint = create_blueprint(
        upstream, name=form, heartbeat=settings.heartbeat, heartbeat_form=form, status_grace=settings.status_grace
    )
    app.register_blueprint(blueprint, url_prefix=f"/{form}/stream")
