"""The debug lines of a real gunicorn: each is out within a tick of its event, and their reader never hurts a stream."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from marked import wait_until
from relay_client import chat

from flaskstream.lab.drive import drive
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import PACKAGE_ROOT
from flaskstream.testing import open_stream

TOKENS, INTERVAL = 8, 0.05
ANSWER = f"tick?tokens={TOKENS}&interval_ms=50"
LINE = re.compile(rb"\S+Z flaskstream stream=(\S+) event=(\d+) bytes=\d+ (?:not_printed=(\d+) )?wire=.*")


@pytest.fixture(scope="module")
def printing(model):
    with GunicornProcess({"upstream": model.url, "debug_print": "1"}) as server:
        server.wait_until_it_answers()
        yield server


@contextlib.contextmanager
def gunicorn_writing_to(stdout, model, tmp_path, *arguments):
    """A gunicorn whose stdout is a pipe of ours, full or without a reader as it may be."""
    log = tmp_path / "log"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment.update(FLASKSTREAM_UPSTREAM=model.url, FLASKSTREAM_DEBUG_PRINT="1")
    command = ["-m", "gunicorn", "-c", "python:flaskstream.gunicorn_conf", "-b", "127.0.0.1:0", *arguments]
    with open(log, "wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, *command, "flaskstream.app:create_app()"],
            stdout=stdout,
            stderr=stderr,
            env=environment,
            cwd=PACKAGE_ROOT,
        )
    try:
        wait_until(lambda: "Listening at: " in log.read_text(), log.read_text)
        yield SimpleNamespace(url=log.read_text().split("Listening at: ")[1].split()[0], log=log)
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def pipe():
    """The two ends of a pipe, as files."""
    reading, writing = os.pipe()
    with open(reading, "rb", 0) as reader, open(writing, "wb", 0) as writer:
        yield reader, writer


def span(recording):
    tokens = [timed.at for timed in recording.events if timed.event.event == "message"]
    assert len(tokens) == TOKENS
    return tokens[-1] - tokens[0]


def test_each_line_is_out_within_a_tick_of_its_event(printing):
    before = len(printing.debug_lines())
    span(chat(printing, f"tick?tokens={TOKENS}&interval_ms=100"))
    wait_until(lambda: len(printing.debug_lines()) == before + TOKENS)
    lines = printing.debug_lines()[before:]
    assert [line.event for line in lines] == list(range(1, TOKENS + 1))
    assert len({line.stream_id for line in lines}) == 1
    assert all(line.came_at - line.printed_at < 0.1 for line in lines)


def test_a_killed_worker_leaves_the_lines_of_all_its_events(model):
    with GunicornProcess({"upstream": model.url, "debug_print": "1"}) as server:
        server.wait_until_it_answers()
        wanted = {"q": "hello", "model": "tick?tokens=50&interval_ms=200"}
        with open_stream(server.url + "/stream/chat", json=wanted) as stream:
            stream.take(3)
            server.kill()
        assert [line.event for line in server.debug_lines()][:3] == [1, 2, 3]


def test_a_stalled_reader_does_not_stall_a_stream_and_what_was_left_out_is_counted(printing, model, tmp_path):
    with pipe() as (reader, writer):
        _fill(writer)
        with gunicorn_writing_to(writer, model, tmp_path, "--workers", "2") as server:
            lost = len(_drive(server, 6)) * TOKENS
            assert span(chat(server, ANSWER)) < span(chat(printing, ANSWER)) + 3 * INTERVAL
            lost += TOKENS
            assert b"flaskstream" not in reader.read(1 << 20)
            while lost:  # each worker tells what it has left out when it prints its next line
                lines = _read_lines(reader, len(_drive(server, 2)) * TOKENS)
                lost -= sum(int(match[3] or 0) for match in lines)
                assert lost >= 0


def test_a_reader_that_has_gone_is_one_warning_and_the_streams_go_on(model, tmp_path):
    with pipe() as (reader, writer):
        reader.close()
        with gunicorn_writing_to(writer, model, tmp_path) as server:
            _drive(server, 3)
            _drive(server, 1)
    log = server.log.read_text()
    assert log.count("stdout cannot be written to (BrokenPipeError") == 1
    assert "Exception" not in log and "Traceback" not in log


def _drive(server, clients):
    driven = drive(f"{server.url}/stream/chat", {"q": "hello", "model": ANSWER}, clients)
    assert [(one.ended, len(one.pieces)) for one in driven] == [("done", TOKENS)] * clients
    return driven


def _fill(writer):
    os.set_blocking(writer.fileno(), False)
    while writer.write(b"." * 512):
        pass
    os.set_blocking(writer.fileno(), True)


def _read_lines(reader, count):
    """Read so many lines; each is whole."""
    text = b""
    while text.count(b"\n") < count:
        text += reader.read(1 << 16)
    matches = [LINE.fullmatch(line) for line in text.splitlines()]
    assert len(matches) == count and all(matches)
    return matches
