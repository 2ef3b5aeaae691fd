"""An app with a blueprint for each dialect, all with the same upstream behind them."""

from __future__ import annotations

from flask import Flask

from flaskstream import Upstream, create_blueprint
from flaskstream.dialects import DIALECTS
from flaskstream.settings import Settings

settings = Settings.from_environment()
app = Flask(__name__)
upstream = Upstream(settings.upstream, settings.api_key, idle_timeout=settings.idle_timeout)
for name in DIALECTS:
    blueprint = create_blueprint(upstream, name=name, dialect=name, debug=True)
    app.register_blueprint(blueprint, url_prefix=f"/{name}")
