"""Ask the child, and hand on what it wrote, however it ended."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO, Any, Dict, List

from flaskstream.doctor.check.child import PATIENCE_SECONDS
from flaskstream.doctor.check.question import Question

Lines = List[Dict[str, Any]]

DYING_SECONDS = 3.0
"""How much later than the child itself would give up it is taken for dead: a view may let nothing else run in it."""

LOOK_SECONDS = 0.2
"""How often it is looked whether the child still runs: what the app has forked may hold the pipe open."""

ERROR_BYTES = 2000
"""How much of the end of the child's stderr is kept."""

_LAST = (b'{"kind": "done"', b'{"kind": "crashed"', b'{"kind": "loading"')
"""How the last line begins."""

_RUN = b'{"kind": "run"'
"""How the first line of the request begins."""

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# The child finds this same package, and then nothing more through it. The working directory, in which a file may be
# called `queue.py`, is looked into when the app is loaded, as by gunicorn.
_START = """
import sys
sys.path[:] = [{root!r}, *filter(None, sys.path)]
import flaskstream.doctor.check.child as child
sys.path.remove({root!r})
child.main({descriptor})
"""


def observe(question: Question) -> Lines:
    """Return what a fresh child wrote down, in its order, and a last line `child`.

    That says whether it was killed, what it wrote to stderr, and its return code where it ended without having said so
    (as of `subprocess`: below zero for a signal).

    Its stdout is a file, and so is buffered as under a log collector. It has a session of its own, in which all that
    the app starts is ended with it; what interrupts this, such as Ctrl-C, reaches it as SIGINT.

    Args:
        question: what it is asked. Who has not loaded the app in time, and has not said so, is killed.
    """
    ours, theirs = os.pipe()
    with open(ours, "rb", 0) as pipe, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        code = _START.format(root=_ROOT, descriptor=theirs)
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=errors,
            pass_fds=[theirs],
            start_new_session=True,
        )
        try:
            os.close(theirs)
            _ask(process, question)
            run_seconds = question.seconds + PATIENCE_SECONDS + DYING_SECONDS
            text, is_whole = _read(pipe, process, question.load_seconds + DYING_SECONDS, run_seconds)
            code_of_end = _wait(process) if is_whole and not _is_said(text) else None
        except BaseException:  # a signal, whatever the command makes of it
            _signal(process, signal.SIGINT)
            _wait(process)
            raise
        finally:
            _signal(process, signal.SIGKILL)
            process.wait()
        lines = [json.loads(line) for line in text.split(b"\n")[:-1]]
        child = {"kind": "child", "killed": not is_whole, "returncode": code_of_end, "stderr": _end_of(errors)}
        return [*lines, child]


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send it to the child and to all that the app has started, as far as it is in the child's group."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):  # nobody is left in it; the second is said by macOS
        pass


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """Return the code with which the child ends by itself; `None`, if it does not."""
    try:
        return process.wait(DYING_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _is_said(text: bytes) -> bool:
    """Tell whether the last line is there."""
    return text.endswith(b"\n") and text.rsplit(b"\n", 2)[-2].startswith(_LAST)


def _ask(process: subprocess.Popen[bytes], question: Question) -> None:
    assert process.stdin is not None
    with process.stdin as stdin:
        try:
            stdin.write(question.to_json().encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:  # it died at its start: what it wrote says why
            pass


def _read(
    pipe: IO[bytes], process: subprocess.Popen[bytes], load_seconds: float, run_seconds: float
) -> tuple[bytes, bool]:
    """Return what came until the last line, the end of the child, or of the time; and whether it was not the time."""
    text, is_running, deadline = b"", False, time.monotonic() + load_seconds
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        has_ended = process.poll() is not None  # asked first: then all that it wrote is in the pipe
        left = 0 if has_ended else min(max(deadline - time.monotonic(), 0), LOOK_SECONDS)
        if not poll.poll(left * 1000):
            if has_ended or time.monotonic() >= deadline:
                return text, has_ended
            continue
        data = pipe.read(65536)
        if not data:
            return text, True
        text += data
        if _is_said(text):
            return text, True  # and not at the end of the pipe: what the app has forked may hold it
        if not is_running and _RUN in text:
            is_running, deadline = True, time.monotonic() + run_seconds


def _end_of(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - ERROR_BYTES, 0))
    return file.read().decode("utf-8", "replace")
