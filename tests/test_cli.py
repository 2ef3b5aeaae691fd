"""The command: what it takes, what it refuses before anything is started, and how it looks on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import termios

import pytest
from click.testing import CliRunner
from raw_client import ask

import flaskstream
from flaskstream.cli import main
from flaskstream.lab.model.command import ANNOUNCEMENT
from flaskstream.lab.plan import Plan

ROOT = pathlib.Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "flaskstream"]


def invoke(*arguments, **environment):
    return CliRunner().invoke(main, list(arguments), env=environment)


def test_it_says_what_there_is():
    result = invoke("--help")
    assert result.exit_code == 0
    assert "compare" in result.output and "model" in result.output
    assert result.output == invoke("-h").output


def test_the_version_is_that_of_the_package():
    printed = subprocess.run([*COMMAND, "--version"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode()
    assert printed.split()[0] == "flaskstream," and printed.split()[-1] == flaskstream.__version__


def test_help_names_every_exit_code_and_every_default():
    said = " ".join(invoke("compare", "--help").output.split())
    for code in ("0 fixed streams", "1 otherwise", "2 usage", "3 a server", "130 Ctrl-C"):
        assert code in said
    plan = Plan()
    for default in (plan.clients, plan.tokens, plan.interval_ms):
        assert f"[default: {default}]" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--clients", "0"), "clients: expected 1 to 64, got 0"),
        (("--clients", "65"), "clients: expected 1 to 64, got 65"),
        (("--clients", "many"), "many"),
        (("--tokens", "3"), "tokens: expected 4 or more"),
        (("--interval-ms", "4"), "interval_ms: expected 5 or more"),
        (("--tokens", "601"), "expected a stream of at most 30 s, got 30.05 s"),
        (("--faults", "joined"), "faults: expected names among joined_body, "),
        (("--upstream", "localhost:1"), "upstream: expected a URL such as https://"),
        (("--upstream", "http://a/v1", "--faults", "late_reader"), "needs the embedded model, got 'late_reader'"),
        (("--html", "no/such/folder/page.html"), "a folder that can be written to, got 'no/such/folder/page.html'"),
        (("--html", "."), "is a directory"),
        (("--colour",), "--colour"),
    ],
)
def test_what_cannot_be_compared_is_refused_at_once(arguments, said):
    result = invoke("compare", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert "starting" not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--script", "tokns=3"), "got 'tokns'"),
        (("--script", "tokens=x"), "tokens: expected a whole number"),
        (("--script", "status=302"), "status: expected 200"),
        (("--port", "70000"), "70000"),
    ],
)
def test_a_model_that_cannot_be_is_refused(arguments, said):
    result = invoke("model", *arguments)
    assert result.exit_code == 2 and said in " ".join(result.output.split())


@contextlib.contextmanager
def model(*arguments):
    process = subprocess.Popen(
        [*COMMAND, "model", *arguments], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_the_model_says_where_it_listens_and_ends_at_a_signal():
    with model("--port", "0", "--script", "tokens=2&interval_ms=1&framing=close") as process:
        url = process.stdout.readline().decode()[len(ANNOUNCEMENT) :].strip()
        answer = ask(url, "any-name")
        assert b"[DONE]" in answer.received and b"chunked" not in answer.head
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_the_model_ends_with_its_standard_input_if_told_to():
    with model("--port", "0", "--until-stdin-closes") as process:
        process.stdout.readline()
        process.stdin.close()
        assert process.wait(20) == 0


def test_a_model_that_cannot_listen_says_why():
    with model("--port", "0") as first:
        port = first.stdout.readline().decode().split(":")[-1].split("/")[0]
        with model("--port", port) as second:
            _, err = second.communicate(timeout=20)
    assert second.returncode == 3
    assert err.decode().startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")


# On a terminal.


def on_terminal(columns, **environment):
    """What `compare` shows on a terminal of so many columns."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [*COMMAND, "compare", "--faults", "none", "--clients", "2", "--tokens", "8"],
        cwd=ROOT,
        env={**inherited, **environment},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    with open(ours, "rb", 0) as terminal:
        text = b"".join(iter(lambda: _read(terminal), b""))
    assert process.wait() in (0, 1)  # on a busy machine so short a stream may be judged to be late
    return text.decode("utf-8").replace("\r\n", "\n")


def _read(terminal):
    try:
        return terminal.read(65536)
    except OSError:  # Linux says so when the last one has closed it
        return b""


def test_on_a_terminal_the_progress_is_one_line_that_goes_away_and_the_report_has_colour():
    text = on_terminal(100)
    progress, _, report = text.rpartition("\r\x1b[K")
    assert progress.count("\r\x1b[K") >= 2 and "\n" not in progress
    assert report.startswith(("flaskstream compare", "\x1b[")) and "\x1b[" in report
    plain = re.sub(r"\x1b\[[0-9;]*m", "", report)
    assert max(map(len, plain.splitlines())) == 100


def test_colour_can_be_switched_off_and_the_progress_fits_a_narrow_terminal():
    progress, _, report = on_terminal(40, NO_COLOR="1").rpartition("\r\x1b[K")
    assert "\x1b" not in report
    assert max(map(len, progress.split("\r\x1b[K"))) < 40
