"""A child on the leash ends with its parent, whatever it is doing and however its parent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from flaskstream.lab.drive import at_once
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import ProcessFailed, environment

PATIENCE = 20


def on_leash(tmp_path, code, **how):
    (tmp_path / "child.py").write_text(code)
    command = [sys.executable, "-m", "flaskstream.lab.leash", "child", "--its", "arguments"]
    return subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, **how)


def test_the_program_runs_as_if_it_had_been_started_by_itself(tmp_path):
    code = "import sys; print(__name__, sys.argv[1:], sys.argv[0].endswith('child.py')); sys.exit(7)"
    with on_leash(tmp_path, code, stdin=subprocess.PIPE) as child:
        assert child.stdout.read() == b"__main__ ['--its', 'arguments'] True\n"
    assert child.returncode == 7


@pytest.mark.parametrize("work", ["time.sleep(600)", "while True: pass"], ids=["waits", "computes"])
def test_it_is_told_to_end_when_its_standard_input_ends(tmp_path, work):
    with on_leash(tmp_path, f"import time\nprint('runs', flush=True)\n{work}", stdin=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"runs\n"
        child.stdin.close()
        assert child.wait(PATIENCE) == -signal.SIGTERM


def test_it_does_not_begin_when_its_parent_has_gone_before(tmp_path):
    reading, writing = os.pipe()
    os.close(writing)
    with open(reading, "rb", 0) as ended, on_leash(tmp_path, "print('runs')", stdin=ended) as child:
        assert (child.stdout.read(), child.wait(PATIENCE)) == (b"", -signal.SIGTERM)


# What the servers of a comparison are made of, where the comparison itself does not reach.


def test_a_gunicorn_that_does_not_start_says_why(tmp_path):
    (tmp_path / "app.py").write_text("raise RuntimeError('no database here')")
    server = GunicornProcess({"upstream": "http://127.0.0.1:9"}, app="app:app", folder=str(tmp_path))
    with server, pytest.raises(ProcessFailed, match="no database here"):
        server.wait_until_it_answers()
    assert "no database here" in server.errors()
    server.close()


def test_jobs_run_at_once_and_their_results_keep_their_order():
    both = threading.Barrier(2, timeout=PATIENCE)
    assert at_once([lambda: (both.wait() * 0) + 1, lambda: (both.wait() * 0) + 2]) == [1, 2]


def test_what_a_job_raises_is_raised():
    def fail():
        raise ValueError("this one")

    with pytest.raises(ValueError, match="this one"):
        at_once([fail, lambda: 1])
