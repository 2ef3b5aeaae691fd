"""A native `EventSource`, with no script of ours, through connections that break: the whole answer, for one request."""

from __future__ import annotations

import itertools
import json
import queue
import secrets
import socket

import pytest
from browser import PATIENCE, missing, opened
from flask import Flask, request
from recorded import script

from flaskstream import Upstream, create_blueprint
from flaskstream.testing import serve

RETRY_MS = 50
PAGE = """<!doctype html>
<meta charset="utf-8">
<script type="module">
  const heard = { text: "", ids: [], ends: [], opened: 0 };
  const source = new EventSource("/stream/chat?q=hello&model=%s");
  source.onopen = () => heard.opened += 1;
  source.onmessage = (event) => { heard.text += JSON.parse(event.data).t; heard.ids.push(event.lastEventId); };
  source.addEventListener("done", () => heard.ends.push("done"));
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) {  // by itself, and for good
      fetch("/heard", { method: "POST", body: JSON.stringify(heard) });
    }
  };
</script>
"""


def breaks(app, broken, events):
    """A hop that breaks the first connections, after so many pieces."""

    def hop(environ, start_response):
        pieces = app(environ, start_response)
        if environ["PATH_INFO"] != "/stream/chat" or next(broken) < 0:
            return pieces
        return broken_off(pieces, environ["werkzeug.socket"])

    def broken_off(pieces, connection):
        try:
            yield from itertools.islice(pieces, events)
            connection.shutdown(socket.SHUT_RDWR)
        finally:
            pieces.close()

    return hop


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_browser_reads_one_answer_through_broken_connections_and_stops(model):
    said = script(f"browser-{secrets.token_hex(4)}", tokens=20, interval_ms=30)
    heard = queue.Queue()
    app = Flask("browser")
    blueprint = create_blueprint(Upstream(model.url), "memory:", debug=True, retry=RETRY_MS)
    app.register_blueprint(blueprint, url_prefix="/stream")
    app.add_url_rule("/", "page", lambda: PAGE % said.model.replace("&", "%26").replace("?", "%3F"))
    app.add_url_rule("/heard", "heard", lambda: heard.put(json.loads(request.get_data())) or "", methods=["POST"])
    app.wsgi_app = breaks(app.wsgi_app, itertools.count(2, -1), events=5)
    with serve(app) as server, opened(server.url):
        told = heard.get(timeout=PATIENCE)
    assert told["text"] == said.text
    assert told["ends"] == ["done"]
    assert [int(event_id.rpartition("-")[2]) for event_id in told["ids"]] == list(range(1, said.tokens + 1))
    assert told["opened"] == 4  # three that broke, and the last one; the 204 opens nothing
    assert len([call for call in model.requests() if call["model"] == said.model]) == 1
