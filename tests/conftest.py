"""Servers that several files of tests share: each is started once, when the first test asks for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import closing
from typing import Iterator

import pytest
from raw_upstream import RawUpstream
from redis_server import RedisServer

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import ModelProcess
from flaskstream.upstream import Upstream

API_KEY = "sk-secret-0123456789"
TESTS = os.path.dirname(os.path.abspath(__file__))
IDLE_SECONDS = 1.5
"""How long `raw_gunicorn` lets its upstream be silent: much longer than a busy machine keeps a play waiting."""
UPSTREAM_IDLE_SECONDS = 0.5
"""The same for `upstream`, which is asked in this process and has less to wait for."""


def pytest_configure() -> None:
    """Have no signal ignored, as a shell's `&` and nohup do: each child would inherit it, and some are sent one."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)


@pytest.fixture(scope="session")
def model() -> Iterator[ModelProcess]:
    """The embedded model."""
    with ModelProcess() as process:
        yield process


@pytest.fixture(scope="session")
def gunicorn(model: ModelProcess) -> Iterator[GunicornProcess]:
    """The fixed mode, with the embedded model behind it."""
    with GunicornProcess({"upstream": model.url}) as process:
        process.wait_until_it_answers()
        yield process


@pytest.fixture(scope="session")
def raw_upstream() -> Iterator[RawUpstream]:
    """An upstream that plays bytes."""
    upstream = RawUpstream()
    yield upstream
    upstream.close()


@pytest.fixture(scope="session")
def raw_gunicorn(raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    """The fixed mode, with the upstream that plays bytes behind it."""
    settings = {"upstream": raw_upstream.url, "api_key": API_KEY, "idle_timeout": str(IDLE_SECONDS)}
    with GunicornProcess(settings) as process:
        process.wait_until_it_answers()
        yield process


@pytest.fixture(scope="session", params=["gevent", "gthread"])
def relays(request: pytest.FixtureRequest, raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    """`apps.relays`, with the upstream that plays bytes behind it, under greenlets and under threads."""
    arguments = () if request.param == "gevent" else ("--threads", "8")
    config = "python:flaskstream.gunicorn_conf" if request.param == "gevent" else "apps/gunicorn_gthread.py"
    settings = {"upstream": raw_upstream.url, "idle_timeout": str(IDLE_SECONDS)}
    with GunicornProcess(settings, arguments, "apps.relays:create_app()", config, TESTS) as process:
        process.wait_until_it_answers()
        yield process


@pytest.fixture
def upstream(raw_upstream: RawUpstream) -> Iterator[Upstream]:
    """The client of the upstream that plays bytes, in this process."""
    with closing(Upstream(raw_upstream.url, API_KEY, idle_timeout=UPSTREAM_IDLE_SECONDS)) as client:
        yield client


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis that all tests share: each has its own prefix, and none stops it."""
    with closing(RedisServer()) as server:
        yield server


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a certificate of 127.0.0.1, signed by itself, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("needs the openssl command to make a certificate")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    made = path.with_suffix(".crt")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-keyout", path, "-out", made], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + made.read_bytes())
    return str(path)
