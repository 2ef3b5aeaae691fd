"""What a stream cannot have under a server is said in the log, once. Our settings for gunicorn lack nothing."""

from __future__ import annotations

import contextlib
import inspect
import os
import select
import subprocess
import sys
import tempfile
from dataclasses import replace

import pytest
import uwsgi_process
import werkzeug.serving
from raw_client import Connection, request
from servers import SERVERS, TESTS

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import environment
from flaskstream.serving.shortcomings import SHORTCOMINGS, Server, server_of, shortcomings_of
from flaskstream.testing import open_stream

BEST = Server("gunicorn", (27, 0, 1), has_greenlets=True)

# Each with what is unlike the best there.
SERVER_ROWS = {
    "one_at_a_time": replace(BEST, name="waitress", is_concurrent=False),
    "a_thread_each": replace(BEST, has_greenlets=False),
    "going_unnoticed": replace(BEST, tells_of_going=False),
    "cut_looks_whole": replace(BEST, name="WSGIServer", has_socket=False),
    "no_settings": replace(BEST, drains=False),
    "no_drain": replace(BEST, name="waitress", drains=False),
}


def names_of(server):
    return [name for name, row in SHORTCOMINGS.items() if row.sentence in shortcomings_of(server)]


def test_the_best_server_has_no_shortcoming():
    assert shortcomings_of(BEST) == []


@pytest.mark.parametrize("name", SERVER_ROWS)
def test_each_shortcoming_follows_from_one_fact(name):
    assert names_of(SERVER_ROWS[name]) == [name]


def test_a_sync_worker_of_gunicorn_is_also_killed():
    assert names_of(replace(BEST, is_concurrent=False)) == ["one_at_a_time", "killed_at_timeout"]


def test_every_shortcoming_is_tested_here():
    assert {*SERVER_ROWS, "killed_at_timeout"} == set(SHORTCOMINGS)


@pytest.mark.parametrize(
    ("server", "ends_by_closing"),
    [
        (Server("Werkzeug", (2, 0, 3)), True),
        (Server("Werkzeug", (2, 1)), False),
        (Server("Werkzeug", (3, 1, 3), is_concurrent=False), True),
        (Server("WSGIServer", (0, 2)), True),
        (Server("uWSGI", (2, 0, 31)), True),
        (Server("waitress", (3, 0, 2)), False),
    ],
    ids=lambda value: str(value),
)
def test_some_servers_end_a_body_with_its_connection(server, ends_by_closing):
    assert server.ends_by_closing == ends_by_closing


@pytest.mark.parametrize(
    ("software", "named"),
    [
        ("gunicorn/27.0.1", ("gunicorn", (27, 0, 1))),
        ("waitress", ("waitress", ())),
        ("Cheroot/10.0.1 Server", ("Cheroot", (10, 0, 1))),
        ("WSGIServer/0.2 CPython/3.11.7", ("WSGIServer", (0, 2))),
        ("Werkzeug/3.0.0rc1", ("Werkzeug", (3, 0, 0))),
    ],
)
def test_a_server_is_called_what_it_calls_itself(software, named):
    server = server_of({"SERVER_SOFTWARE": software})
    assert (server.name, server.version) == named


def test_a_test_client_is_no_server_that_lacks_something():
    assert shortcomings_of(server_of({"wsgi.multithread": False})) == []


# What real servers write on their standard error.

WERKZEUG = ("Werkzeug", "no_drain")
if "werkzeug.socket" not in inspect.getsource(werkzeug.serving):  # before 2.0
    WERKZEUG = ("Werkzeug", "going_unnoticed", "cut_looks_whole", "no_drain")

SAID = {
    "cheroot": ("Cheroot", "a_thread_each", "going_unnoticed", "no_drain"),
    "waitress": ("waitress", "a_thread_each", "going_unnoticed", "no_drain"),
    "werkzeug": WERKZEUG,
    "wsgiref": ("WSGIServer", "one_at_a_time", "going_unnoticed", "cut_looks_whole", "no_drain"),
    "gunicorn-gevent": ("gunicorn",),
    "gunicorn-gevent-alone": ("gunicorn", "no_settings"),
    "gunicorn-gthread": ("gunicorn", "a_thread_each", "no_settings"),
    "gunicorn-gthread-ours": ("gunicorn", "a_thread_each"),
    "gunicorn-sync": ("gunicorn", "one_at_a_time", "killed_at_timeout", "no_settings"),
    "uwsgi-sync": ("uWSGI", "one_at_a_time", "no_drain"),
    "uwsgi-gevent": ("uWSGI", "no_drain"),
    "uwsgi-threads": ("uWSGI", "a_thread_each", "no_drain"),
    "uwsgi-router": ("uWSGI", "a_thread_each", "going_unnoticed", "no_drain"),
}
OURS = "python:flaskstream.gunicorn_conf"
PLAIN = "apps/gunicorn_plain.py"


def gunicorn(config, *arguments):
    settings = {"UPSTREAM": "http://127.0.0.1:9/v1"}  # nobody asks it
    return GunicornProcess(settings, arguments, app="apps.ticks:app", config=config, folder=TESTS)


@contextlib.contextmanager
def in_a_process(name):
    """One of the servers that others share, in a process of its own for the sake of its log."""
    code = f"import servers, sys\nwith servers.SERVERS[{name!r}]() as url: print(url, flush=True); sys.stdin.read()"
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=TESTS,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        with process:  # closes its standard input, which ends it
            yield Started(process.stdout.readline().decode().strip(), errors)


class Started:
    def __init__(self, url, errors):
        self.url = url
        self._errors = errors

    def errors(self):
        return os.pread(self._errors.fileno(), os.fstat(self._errors.fileno()).st_size, 0).decode()


STARTS = {
    **{name: lambda name=name: in_a_process(name) for name in ("cheroot", "waitress", "werkzeug", "wsgiref")},
    "gunicorn-gevent": lambda: gunicorn(OURS),
    "gunicorn-gevent-alone": lambda: gunicorn(PLAIN, "-k", "gevent"),
    "gunicorn-gthread": lambda: gunicorn(PLAIN, "-k", "gthread", "--threads", "4"),
    "gunicorn-gthread-ours": lambda: gunicorn("apps/gunicorn_gthread.py"),
    "gunicorn-sync": lambda: gunicorn(PLAIN, "-k", "sync"),
    "uwsgi-sync": lambda: uwsgi_process.UwsgiProcess(),
    "uwsgi-gevent": lambda: uwsgi_process.UwsgiProcess(*uwsgi_process.GREENLETS),
    "uwsgi-threads": lambda: uwsgi_process.UwsgiProcess(*uwsgi_process.THREADS),
    "uwsgi-router": lambda: uwsgi_process.UwsgiProcess(*uwsgi_process.THREADS, *uwsgi_process.ROUTER),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_server_says_once_what_a_stream_cannot_have_there(name):
    if name in ("cheroot", "waitress"):
        pytest.importorskip(name)
    with STARTS[name]() as server:
        with open_stream(server.url + "/happened") as answer:
            answer.text()
        assert "streams under" not in server.errors()  # nobody has asked for a stream
        for _ in range(3):
            with open_stream(server.url + "/ticks?count=1&interval=0") as stream:
                assert [timed.event.event for timed in stream] == ["message", "done"]
        said = [line for line in server.errors().splitlines() if "streams under" in line]
    software, *names = SAID[name]
    assert len(said) == len(names)
    for line, shortcoming in zip(said, names):
        assert f"streams under {software}" in line and line.endswith(f": {SHORTCOMINGS[shortcoming].sentence}")


def test_every_server_is_started_here():
    assert set(SAID) == set(STARTS)
    assert set(SERVERS) - {"wsgiref-validated", "uwsgi-socket"} <= set(STARTS)


@pytest.mark.parametrize("worker", [("-k", "gthread", "--threads", "2"), ("-k", "sync")], ids=["gthread", "sync"])
def test_when_every_thread_has_a_stream_the_next_client_waits(worker):
    places = 2 if "gthread" in worker else 1
    with gunicorn(PLAIN, *worker) as server, contextlib.ExitStack() as stack:
        open_streams = [stack.enter_context(open_stream(server.url + "/endless")) for _ in range(places)]
        next_client = stack.enter_context(Connection(server.url))
        next_client.send(request("GET", "/endless"))
        for stream in open_streams:
            assert len(stream.take(20)) == 20  # which takes 0.4 s: an answer takes a hundredth of that
        assert not select.select([next_client.socket], [], [], 0)[0]
        open_streams[0].close()
        next_client.read_until(b"data: tick")
