"""The app behind `wsgi.py`: the blueprint mounted under `/stream`, with all that a demonstration needs."""

from __future__ import annotations

from typing import Callable

from flask import Flask, Response, request

from flaskstream.blueprint import create_blueprint
from flaskstream.debug import DebugPrinter
from flaskstream.settings import Settings
from flaskstream.upstream import Upstream

PREFIX = "/stream"

_INDEX = """flaskstream: {mode} mode

  curl -N '{url}/chat?q=hello'
  curl -N '{url}/v1/chat/completions' -H 'Content-Type: application/json' \\
       -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "hello"}}]}}'

Without FLASKSTREAM_UPSTREAM an embedded model answers. FLASKSTREAM_MODE=broken shows the mistakes.
"""


def create_app(settings: Settings | None = None) -> Flask:
    """Return the demonstration app.

    Args:
        settings: `None`: those of the environment.

    Raises:
        InvalidSetting: the environment says something that does not work.
    """
    settings = settings or Settings.from_environment()
    app = Flask(__name__)
    upstream = _upstream(settings)
    if settings.mode == "broken":
        from flaskstream.lab.broken import install_broken

        install_broken(app, PREFIX, upstream, settings)
    else:
        blueprint = create_blueprint(
            upstream,
            debug=True,
            heartbeat=settings.heartbeat,
            status_grace=settings.status_grace,
            printer=DebugPrinter() if settings.debug_print else None,
        )
        app.register_blueprint(blueprint, url_prefix=PREFIX)
    app.add_url_rule("/", view_func=_index(settings))
    return app


def _index(settings: Settings) -> Callable[[], Response]:
    def index() -> Response:
        url = request.host_url.rstrip("/") + PREFIX
        return Response(_INDEX.format(mode=settings.mode, url=url, model=settings.model), content_type="text/plain")

    return index


def _upstream(settings: Settings) -> Upstream:
    base_url = settings.upstream
    if base_url is None:
        from flaskstream.lab.embedded import embedded_model_url

        base_url = embedded_model_url()
    return Upstream(
        base_url,
        api_key=settings.api_key,
        model=settings.model,
        idle_timeout=settings.idle_timeout,
    )
