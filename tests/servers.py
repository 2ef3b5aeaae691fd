"""WSGI servers on real sockets, each as a block that gives its URL; they serve `apps.ticks`."""

from __future__ import annotations

import contextlib
import io
import os
import socketserver
import threading
import time
import wsgiref.simple_server
import wsgiref.validate

import in_process
import pytest
import uwsgi_process
from apps.ticks import app

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.testing import open_stream

TESTS = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 10  # seconds that no test needs, unless it fails


@contextlib.contextmanager
def gunicorn(*arguments, config="apps/gunicorn_plain.py"):
    with GunicornProcess(
        {"UPSTREAM": "http://127.0.0.1:9/v1"},  # nobody asks it: it keeps the embedded model away
        arguments,
        app="apps.ticks:app",
        config=config,
        folder=TESTS,
    ) as process:
        process.wait_until_it_answers("/happened")
        yield process.url


@contextlib.contextmanager
def cheroot():
    module = pytest.importorskip("cheroot.wsgi", reason="cheroot is not installed")
    server = module.Server(("127.0.0.1", 0), app, numthreads=8)
    server.prepare()
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.bind_addr[1]}"
    finally:
        server.stop()
        thread.join(PATIENCE)


@contextlib.contextmanager
def uwsgi(*arguments):
    with uwsgi_process.UwsgiProcess(*arguments) as process:
        yield process.url


class _Wsgiref(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """The standard library's server, with a thread for each request."""

    daemon_threads = True


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass

    def get_stderr(self):
        return self.server.errors


@contextlib.contextmanager
def wsgiref_server(application=app):
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, application, _Wsgiref, _Quiet)
    server.errors = io.StringIO()  # where wsgiref writes what went wrong, such as a violation of PEP 3333
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert "AssertionError" not in server.errors.getvalue()


SERVERS = {
    "gunicorn-gevent": lambda: gunicorn(config="python:flaskstream.gunicorn_conf"),
    "gunicorn-gthread": lambda: gunicorn("-k", "gthread", "--threads", "8"),
    "gunicorn-sync": lambda: gunicorn("-k", "sync"),
    "cheroot": cheroot,
    "uwsgi-socket": lambda: uwsgi(*uwsgi_process.THREADS),
    "uwsgi-router": lambda: uwsgi(*uwsgi_process.THREADS, *uwsgi_process.ROUTER),
    "uwsgi-gevent": lambda: uwsgi(*uwsgi_process.GREENLETS),
    "uwsgi-sync": uwsgi,
    "waitress": lambda: in_process.waitress(app, threads=8),
    "werkzeug": lambda: in_process.werkzeug(app),
    "wsgiref": wsgiref_server,
    "wsgiref-validated": lambda: wsgiref_server(wsgiref.validate.validator(app)),
}


def happened_at(server):
    """What the app noted since it was last asked."""
    with open_stream(f"{server}/happened") as answer:
        return answer.json()


def wait_until_happened(server, *awaited):
    """What the app notes, sorted, as soon as all that is awaited is among it."""
    happened = []
    deadline = time.monotonic() + PATIENCE
    while not set(awaited) <= set(happened) and time.monotonic() < deadline:
        happened += happened_at(server)
        time.sleep(0.01)
    return sorted(happened)
