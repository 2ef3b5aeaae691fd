"""The settings for gunicorn: they patch first, refuse what cannot work, and leave nothing behind."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import ssl
import subprocess
import sys

import pytest
from marked import Mark, wait_until
from raw_upstream import FINAL_CHUNK, Pause, RawUpstream, chunk, head
from relay_client import chat, end, text

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.model.script import Script
from flaskstream.testing import open_stream

ROOT = pathlib.Path(__file__).parent.parent
OURS = {"app": "wsgi:app", "config": "gunicorn.conf.py", "folder": str(ROOT)}
IMPORTABLE = "python:flaskstream.gunicorn_conf"
MODEL = "flaskstream.lab.model"
SHORT = "tick?tokens=3&interval_ms=5"
INTERVAL = 0.1


@contextlib.contextmanager
def serving(settings=None, *arguments, **where):
    with GunicornProcess(settings or {}, arguments=arguments, **where) as server:
        server.wait_until_it_answers()
        yield server
        server.kill()  # its graceful end takes a second, and is the subject of one test only


@pytest.fixture
def mark(monkeypatch):
    mark = Mark()
    for name, value in mark.environment.items():
        monkeypatch.setenv(name, value)
    yield mark
    mark.wait_until_gone()


def answers(server):
    return text(chat(server, SHORT)) == Script(tokens=3).text


def check_config(tmp_path, config, **environment):
    """What gunicorn says of a configuration: (exit code, its standard error)."""
    command = [sys.executable, "-m", "gunicorn", "--check-config", "-c", config, "wsgi:app"]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": "", "HOME": str(tmp_path), **environment},
        capture_output=True,
        timeout=60,
    )
    return ran.returncode, ran.stderr.decode()


# TLS: what late patching breaks, and nothing else does.


@pytest.fixture(scope="module")
def tls_upstream(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    upstream = RawUpstream(context)
    yield upstream
    upstream.close()


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [({}, ()), ({}, ("--preload",)), ({"faults": "unflushed_print"}, ("--preload",))],
    ids=["as it is", "with --preload", "in the broken mode"],
)
def test_an_upstream_behind_tls_streams(tls_upstream, certificate, monkeypatch, settings, arguments):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certificate)
    told = [b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % n for n in range(4)]
    steps = [step for event in told for step in (chunk(event), Pause(INTERVAL))]
    model = tls_upstream.plays(head("chunked"), *steps, chunk(b"data: [DONE]\n\n") + FINAL_CHUNK)
    with serving({"upstream": tls_upstream.url, **settings}, *arguments, **OURS) as server:
        answer = chat(server, model)
    assert (text(answer), end(answer).event) == ("0123", "done")
    came = [timed.at for timed in answer.events]
    assert came[3] - came[0] > 2 * INTERVAL
    assert "MonkeyPatchWarning" not in server.errors()


@pytest.mark.parametrize(
    "early", ["import requests", "from ssl import SSLContext", "import ssl\nclass Mine(ssl.SSLContext): pass"]
)
def test_what_was_imported_too_early_is_refused_by_name(tmp_path, early):
    config = tmp_path / "conf.py"
    config.write_text(f"{early}\nfrom flaskstream.gunicorn_conf import *\n")
    code, errors = check_config(tmp_path, str(config), PYTHONPATH=str(ROOT))
    assert code == 1
    said = errors.strip().splitlines()[-1]
    assert said.startswith("RuntimeError: gevent must patch before anything uses ssl, but ")
    assert ("urllib3.util.ssl_" if "requests" in early else "__config__") in said


def test_whoever_has_patched_already_may_import_what_he_likes(tmp_path):
    config = tmp_path / "conf.py"
    config.write_text(
        "from gevent import monkey; monkey.patch_all()\nimport requests\nfrom flaskstream.gunicorn_conf import *\n"
    )
    assert check_config(tmp_path, str(config), PYTHONPATH=str(ROOT)) == (0, "")


# Whose settings they are.


def test_the_file_has_every_setting_of_the_module():
    def settings(config):
        command = [sys.executable, "-m", "gunicorn", "--print-config", "-c", config, "wsgi:app"]
        printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
        others = ("config ", "on_starting ")  # the file has a hook more, for the model of the demonstration
        return [line for line in printed.splitlines() if not line.startswith(others) and " at 0x" not in line]

    assert settings("gunicorn.conf.py") == settings(IMPORTABLE)


LEGACY = """
import time
from flask import Flask, Response
app = Flask(__name__)

@app.route("/")
def ticks():
    def body():
        for n in range(4):
            yield "data: %d\\n\\n" % n
            time.sleep(0.1)
    return Response(body(), mimetype="text/event-stream")
"""


def test_an_app_without_a_file_of_ours_streams_and_several_start_from_one_folder_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (tmp_path / "legacy.py").write_text(LEGACY)
    settings = {"upstream": "http://127.0.0.1:9/v1"}  # of no interest to this app
    with contextlib.ExitStack() as stack:
        start = [GunicornProcess(settings, app="legacy:app", folder=str(tmp_path)) for _ in range(4)]
        servers = [stack.enter_context(server) for server in start]
        for server in servers:
            with open_stream(server.url, timeout=30) as stream:
                events = list(stream)
            assert [timed.event.data for timed in events] == ["0", "1", "2", "3"]
            assert events[-1].at - events[0].at > 2 * INTERVAL
            assert "Using worker: gevent" in server.errors()
        for server in servers:
            server.terminate()
    logs = [line for server in servers for line in server.errors().splitlines()]
    assert [line for line in logs if "[INFO]" not in line] == []
    assert not (tmp_path / ".gunicorn").exists()  # where each would have put the one control socket


# The embedded model: one, as long as the master.


def test_the_command_alone_serves_everything(mark):
    with serving(**OURS) as server:
        assert answers(server)
        assert "the embedded model answers" in server.errors()
        assert len(mark.commands(MODEL)) == 1


@pytest.mark.parametrize("arguments", [(), ("--preload",)])
def test_two_workers_share_one_model(mark, arguments):
    with serving({}, "--workers", "2", *arguments, **OURS) as server:
        wait_until(lambda: server.errors().count("Booting worker") == 2)
        assert all(answers(server) for _ in range(4))
        assert len(mark.commands(MODEL)) == 1


def test_an_upstream_of_ones_own_starts_no_model(mark, model):
    with serving({"upstream": model.url}, **OURS) as server:
        assert answers(server)
        assert mark.commands(MODEL) == {}


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGQUIT", "SIGKILL"])
def test_nothing_outlives_the_master(mark, name):
    with serving({}, "--workers", "2", **OURS) as server:
        assert answers(server)
        mark.signal(server.pid, signal.Signals[name])
        mark.wait_until_gone()


def test_a_reload_keeps_the_model_and_a_killed_worker_is_replaced(mark):
    with serving(**OURS) as server:
        model = mark.commands(MODEL)
        (worker,) = set(mark.commands("gunicorn")) - {server.pid}
        mark.signal(worker, signal.SIGKILL)
        wait_until(lambda: server.errors().count("Booting worker") == 2)
        assert answers(server)
        mark.signal(server.pid, signal.SIGHUP)
        wait_until(lambda: server.errors().count("Booting worker") == 3)
        assert answers(server)
        assert mark.commands(MODEL) == model


# What cannot work is refused.


@pytest.mark.parametrize("config", ["gunicorn.conf.py", IMPORTABLE])
@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"FLASKSTREAM_MODE": "brokn"}, 'FLASKSTREAM_MODE: expected "fixed" or "broken", got \'brokn\''),
        ({"FLASKSTREAM_FAULTS": "joined"}, "got 'joined'"),
        ({"FLASKSTREAM_HEARTBEAT": "soon"}, "FLASKSTREAM_HEARTBEAT: expected seconds"),
        ({"FLASKSTREAM_HARTBEAT": "9"}, "FLASKSTREAM_HARTBEAT: nothing reads this variable"),
    ],
)
def test_a_bad_setting_is_refused_and_the_last_line_says_why(tmp_path, config, environment, said):
    code, errors = check_config(tmp_path, config, **environment)
    assert code == 1
    assert said in errors.strip().splitlines()[-1]


def test_an_app_that_cannot_be_loaded_ends_gunicorn(tmp_path, model):
    (tmp_path / "app.py").write_text("raise RuntimeError('no database here')")
    command = [sys.executable, "-m", "gunicorn", "-c", IMPORTABLE, "-b", "127.0.0.1:0", "app:app"]
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "FLASKSTREAM_UPSTREAM": model.url}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, timeout=60)
    assert ran.returncode == 3
    assert b"no database here" in ran.stderr and b"Worker failed to boot" in ran.stderr


def test_the_broken_mode_runs_the_sync_worker(model):
    with serving({"upstream": model.url, "mode": "broken"}, **OURS) as server:
        assert "Using worker: sync" in server.errors()


def test_a_variable_that_only_the_demonstration_reads_is_told_in_another_app(model):
    settings = {"upstream": model.url, "max_streams": "3"}
    with serving(settings, app="apps.express:create_app()", folder=str(ROOT / "tests")) as server:
        assert "FLASKSTREAM_MAX_STREAMS: only the app of wsgi.py reads it" in server.errors()
    with serving(settings) as server:
        assert "only the app of wsgi.py" not in server.errors()
