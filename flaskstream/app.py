"""The app behind `wsgi.py`: the blueprint mounted under `/stream`, with all that a demonstration needs."""

from __future__ import annotations

from flask import Flask, Response, request

from flaskstream.blueprint import create_blueprint
from flaskstream.debug import DebugPrinter
from flaskstream.settings import Settings
from flaskstream.upstream import Upstream

PREFIX = "/stream"

_FIXED_INDEX = """flaskstream: the fixed mode

  curl -N '{url}/chat?q=hello'
  curl -N '{url}/probe'
  a page: {url}/compare
  curl -N '{url}/v1/chat/completions' -H 'Content-Type: application/json' \\
       -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "hello"}}]}}'

FLASKSTREAM_MODE=broken shows the mistakes.
"""

_BROKEN_INDEX = """flaskstream: the broken mode, with {faults}

  curl -N '{url}/chat?q=hello'
  curl -N '{url}/probe'

FLASKSTREAM_FAULTS=... chooses the mistakes: flaskstream compare --help
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
    if settings.mode == "broken":
        _add_broken(app, settings)
    else:
        _add_fixed(app, settings)
    return app


def _add_fixed(app: Flask, settings: Settings) -> None:
    blueprint = create_blueprint(
        _upstream(settings),
        settings.store,
        orphan_timeout=settings.orphan_timeout,
        debug=True,
        heartbeat=settings.heartbeat,
        status_grace=settings.status_grace,
        max_duration=settings.max_duration,
        max_streams=settings.max_streams,
        printer=DebugPrinter() if settings.debug_print else None,
    )
    app.register_blueprint(blueprint, url_prefix=PREFIX)
    _add_index(app, _FIXED_INDEX, model=settings.model or "tick")


def _add_broken(app: Flask, settings: Settings) -> None:
    from flaskstream.lab.broken import install_broken
    from flaskstream.lab.faults import NO_FAULT, active_faults

    install_broken(app, PREFIX, _upstream(settings), settings)
    names = [fault.name for fault in active_faults(settings.faults)]
    _add_index(app, _BROKEN_INDEX, faults=", ".join(names) or NO_FAULT)


def _add_index(app: Flask, text: str, **values: str) -> None:
    @app.route("/")
    def index() -> Response:
        url = request.host_url.rstrip("/") + PREFIX
        return Response(text.format(url=url, **values), content_type="text/plain; charset=utf-8")


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
