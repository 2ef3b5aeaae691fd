"""What a worker can hold: its limit of descriptors is raised as far as it needs, and a full worker says so."""

from __future__ import annotations

import contextlib
import os
import pathlib
import resource
import subprocess
import sys
import time

import pytest

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.serving.room import DESCRIPTORS_BESIDE, DESCRIPTORS_OF_A_STREAM
from flaskstream.testing import open_stream

HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
NEEDED = DESCRIPTORS_OF_A_STREAM * 1000 + DESCRIPTORS_BESIDE  # of gunicorn_conf's worker_connections
ENDLESS = {"q": "hello", "model": "tick?tokens=400&interval_ms=50"}


@contextlib.contextmanager
def limited(folder: pathlib.Path, soft: int, hard: int, *arguments: str):
    """A gunicorn that was started under these limits of descriptors."""
    config = folder / "limited.py"
    config.write_text(
        "import resource\nfrom flaskstream.gunicorn_conf import *\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
    )
    with GunicornProcess({}, arguments, config=str(config)) as server:
        server.wait_until_it_answers()
        yield server


def soft_limit(server: GunicornProcess) -> int:
    """Of its worker."""
    children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    limits = pathlib.Path(f"/proc/{children[0]}/limits").read_text()
    (row,) = (line for line in limits.splitlines() if line.startswith("Max open files"))
    return int(row.split()[3])


@pytest.mark.skipif(HARD < NEEDED, reason=f"the limit of descriptors here is {HARD}")
def test_the_limit_of_descriptors_is_raised_as_far_as_the_connections_need_it(tmp_path):
    with limited(tmp_path, 256, HARD) as server:
        assert soft_limit(server) == NEEDED
        assert "descriptors" not in server.errors()


def test_one_that_cannot_be_raised_far_enough_is_told(tmp_path):
    with limited(tmp_path, 200, 300) as server:
        assert soft_limit(server) == 300
        expected = f"expected room for {NEEDED} descriptors, which 1000 connections need, got 300"
        assert expected in server.errors()
        assert "lower worker_connections to 83" in server.errors()


def test_a_limit_that_is_high_enough_stays(tmp_path):
    with limited(tmp_path, 280, 300, "--worker-connections", "20") as server:
        assert soft_limit(server) == 280
        assert "descriptors" not in server.errors()


@pytest.mark.parametrize("max_streams, is_told", [("", True), ("3", False)])
def test_a_worker_whose_streams_have_taken_all_connections_says_so_once(model, max_streams, is_told):
    settings = {"upstream": model.url, **({"max_streams": max_streams} if max_streams else {})}
    with GunicornProcess(settings, ("--worker-connections", "4")) as server, contextlib.ExitStack() as streams:
        server.wait_until_it_answers()
        for _ in range(3):
            streams.enter_context(open_stream(server.url + "/stream/chat", json=ENDLESS)).take(1)
        assert "further clients wait" not in server.errors()
        fourth = streams.enter_context(open_stream(server.url + "/stream/chat", json=ENDLESS))
        if is_told:
            fourth.take(1)
            until = time.monotonic() + 10
            while "further clients wait" not in server.errors() and time.monotonic() < until:
                time.sleep(0.05)
            assert server.errors().count("all 4 connections of this worker are taken by streams") == 1
        else:
            assert fourth.status == 503


WITHOUT_A_DESCRIPTOR = """
import os, resource, sys
from flaskstream import Upstream
from flaskstream.relay import Relay
from flaskstream.errors import TooManyStreams, UpstreamRefused

relay = Relay(Upstream(sys.argv[1]))
question = {"model": "tick?tokens=2", "messages": [{"role": "user", "content": "hello"}]}
try:
    list(Relay(Upstream("http://127.0.0.1:9/v1", retries=0)).tokens(question))  # imports what it needs
except UpstreamRefused:
    pass
next_one = os.dup(0)
resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
os.close(next_one)
held = []
try:
    while True:
        held.append(os.dup(0))
except OSError:
    pass
try:
    list(relay.tokens(question))
except TooManyStreams as error:
    print(error.status, error)
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])  # a name that is looked up fails in another way
def test_a_process_without_a_descriptor_does_not_blame_the_upstream(model, host):
    url = model.url.replace("127.0.0.1", host)
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_A_DESCRIPTOR, url]
    environ = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).resolve().parent.parent)}
    model.forget()
    done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert done.stdout.startswith(b"503 expected a descriptor"), done.stderr.decode()
    assert model.requests() == []
