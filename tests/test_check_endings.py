"""`flaskstream check` on an app that ends what it is in, and that nothing of the app is left running after it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

import pytest
from checking import (  # noqa: F401 - one is a fixture
    APPS,
    ROOT,
    asked,
    assert_names,
    codes,
    in_the_folder_of_the_apps,
    the_finding,
)

from flaskstream.doctor.check.examine import check
from flaskstream.doctor.check.judge import CANNOT_TELL, STREAMS
from flaskstream.doctor.check.question import Question

SECONDS = 30.0
"""No test below waits so long, unless it fails."""


def test_a_piece_that_is_neither_text_nor_bytes_is_no_piece():
    checked = asked("of_views", "/number")
    assert (checked.verdict.name, checked.seen.run.source.pieces) == (CANNOT_TELL, 1)
    assert (
        "yields int, not str or bytes: the client has a 200 and 1 piece" in the_finding(checked, "view_failed").sentence
    )
    assert_names(checked, "view_failed", "number")


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "GeneratorExit"])
def test_what_would_end_a_worker_is_no_stream_and_is_not_waited_for(name):
    began = time.monotonic()
    checked = check(Question("checked:of_views()", f"/raises/{name}", seconds=SECONDS))
    assert time.monotonic() - began < SECONDS
    assert (checked.verdict.name, codes(checked)) == (CANNOT_TELL, ["view_failed"])
    assert f"it failed: {name}" in checked.verdict.sentence


@pytest.mark.parametrize(
    ("factory", "path", "said"),
    [
        ("exits", "/", "while it was loaded, with exit code 3"),
        ("exits_with_a_child", "/", "while it was loaded, with exit code 3"),
        ("of_views", "/exits", "in the request, with exit code 3"),
        ("of_views", "/crashes", "in the request, by SIGSEGV"),
    ],
)
def test_an_app_that_ends_its_process_is_said_to_do_so(factory, path, said):
    checked = asked(factory, path)
    assert checked.verdict.name == CANNOT_TELL
    assert f"the app ended its process {said}" in checked.verdict.sentence


# What the app has started.


@pytest.fixture
def started(tmp_path, monkeypatch):
    """The end of a pipe, which says what came through it until the last process that holds the other has ended."""
    name = tmp_path / "started"
    os.mkfifo(name)
    monkeypatch.setenv("STARTED", str(name))
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def read(descriptor):
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(SECONDS * 1000), "a process of the app still runs"
    return os.read(descriptor, 100)


def test_a_process_that_the_app_has_started_is_ended(started):
    assert check(Question("checked:starts_a_process()", "/plain")).verdict.name == STREAMS
    assert (read(started), read(started)) == (b"started ", b"")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_is_handed_on_and_leaves_nothing(started, name):
    number = signal.Signals[name]
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"  # a shell's & has it ignored
        "from flaskstream.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "check", "checked:starts_a_process()", "/slow", "--seconds", "60"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=APPS, env=environment, stderr=subprocess.PIPE) as process:
        try:
            said = read(started)
            process.send_signal(number)
            assert process.wait(SECONDS) == 128 + number
        finally:
            process.kill()
        said_so = process.stderr.read().decode()
        assert said_so == f"Error: interrupted by {name}; all that was started has ended\n"
    while not said.endswith(b"interrupted"):
        more = read(started)
        assert more, said
        said += more
    assert read(started) == b""
