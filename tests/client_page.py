"""Pages that try the browser client in Chromium, and tell what they saw."""

from __future__ import annotations

import contextlib
import json
import pathlib
import queue
from typing import Any, Callable, Iterator

from browser import PATIENCE, opened
from flask import Flask, Response, request

from flaskstream import Upstream, create_blueprint
from flaskstream.testing import serve

NODE = pathlib.Path(__file__).parent / "node"

_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>The client</title>
<body>
<script>
  onerror = (message) => fetch("/told", { method: "POST", body: JSON.stringify(message) });
</script>
<script type="module">
  import * as client from "/stream/client.js";
  const tell = (told) => fetch("/told", { method: "POST", body: JSON.stringify(told) });
  const until = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const frame = () => new Promise(requestAnimationFrame);
  async function tried() {
    %s
  }
  tell(await tried().catch((error) => `${error.stack ?? error}`));
</script>
"""


def page_app(script: str, upstream: str = "http://127.0.0.1:1/v1", **options: Any) -> Flask:
    """Return an app with the blueprint, and at `/` a page that runs the body of an async function; `tell` tells."""
    app = Flask("page")
    app.register_blueprint(create_blueprint(Upstream(upstream), debug=True, **options), url_prefix="/stream")
    app.add_url_rule("/", "page", lambda: _PAGE % script)

    @app.route("/node/<name>")
    def module(name: str) -> Response:
        return Response((NODE / name).read_bytes(), mimetype="text/javascript")

    return app


@contextlib.contextmanager
def shown(app: Flask, wrapped: Callable[[Any], Any] = lambda wsgi: wsgi) -> Iterator[Callable[[], Any]]:
    """Have the page open while the block runs, which gets what returns the next thing that the page tells."""
    told: queue.Queue[Any] = queue.Queue()
    app.add_url_rule("/told", "told", lambda: told.put(json.loads(request.get_data())) or "", methods=["POST"])
    app.wsgi_app = wrapped(app.wsgi_app)  # type: ignore[method-assign]
    with serve(app) as server, opened(server.url) as log:

        def heard() -> Any:
            try:
                return told.get(timeout=PATIENCE)
            except queue.Empty:
                log.seek(0)
                raise AssertionError(f"expected the page to tell something; the browser said {log.read()!r}") from None

        yield heard
