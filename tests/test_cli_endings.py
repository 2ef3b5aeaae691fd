"""How a command ends when it is not let: no place to write to, a reader that has gone, a signal at any moment."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from flaskstream.cli.console import EXIT_NOT_MEASURED, EXIT_SIGNAL

ROOT = pathlib.Path(__file__).parent.parent
APPS = ROOT / "tests" / "apps"
PATIENCE = 60.0
COMMAND = [sys.executable, "-m", "flaskstream"]
COMPARE = ["compare", "--faults", "none", "--clients", "1", "--tokens", "4"]
CHECK = ["check", "checked:healthy()", "/plain"]
COMMANDS = {
    "check": CHECK,
    "check --json": [*CHECK, "--json"],
    "compare": COMPARE,
    "proxy-config": ["proxy-config", "nginx"],
    "proxy-config, all": ["proxy-config"],
}


def run(arguments, **how):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    how = {"stderr": subprocess.PIPE, "timeout": PATIENCE, "cwd": str(APPS), "env": environment, **how}
    return subprocess.run([*COMMAND, *arguments], **how)


def assert_says_so_in_one_line(done):
    assert done.returncode == EXIT_NOT_MEASURED, done.stderr.decode()
    errors = [line for line in done.stderr.decode().splitlines() if not line.startswith(("starting", "reading"))]
    assert len(errors) == 1 and errors[0].startswith("Error: stdout: expected a place to write to, got "), errors


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=list(COMMANDS))
def test_a_full_disk_is_one_line_and_its_exit_code(arguments):
    with open("/dev/full", "w") as full:
        assert_says_so_in_one_line(run(arguments, stdout=full))


@pytest.mark.parametrize("arguments", [CHECK, ["proxy-config"]], ids=["check", "proxy-config"])
def test_so_is_a_reader_that_has_gone(arguments):
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        assert_says_so_in_one_line(run(arguments, stdout=theirs))
    finally:
        os.close(theirs)


def test_and_a_stdout_that_was_closed_from_the_start():
    assert_says_so_in_one_line(run(CHECK, preexec_fn=lambda: os.close(1)))


def test_a_page_that_cannot_be_written_is_an_error_after_the_comparison():
    done = run([*COMPARE, "--html", "/dev/full"], stdout=subprocess.PIPE)
    assert done.returncode == EXIT_NOT_MEASURED and b"first token" in done.stdout
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("Error: --html: expected a file that can be written, got ")


# Ctrl-C while the command is still being imported.

# Sends itself the signal in the middle of the import of one module.
_INTERRUPTED = """
import os, runpy, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & has it ignored
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv[1:] = {arguments!r}
runpy.run_module("flaskstream", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("click", ["--help"]),
        ("flaskstream.cli", ["--help"]),
        ("flaskstream.cli.tail", ["proxy-config"]),
        ("flaskstream.proxies", ["proxy-config"]),
        ("flaskstream.doctor.check.examine", CHECK),
        ("flaskstream.lab.plan", COMPARE),
        ("flaskstream.doctor.measure", ["tail", "http://127.0.0.1:9/"]),
        ("flaskstream.doctor.examine", ["doctor", "http://127.0.0.1:9/"]),
        ("flaskstream.beside", ["init", "checked:app"]),
    ],
)
def test_ctrl_c_during_an_import_ends_it_quietly(module, arguments):
    code = _INTERRUPTED.format(module=module, arguments=arguments)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=APPS, capture_output=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (EXIT_SIGNAL + signal.SIGINT, b"", b"")


# Says that the command begins to be imported: what Python does before that is not in our hands.
_BEGINS = """
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Tells:
    def find_spec(self, name, path=None, target=None):
        if name == "flaskstream.cli":
            os.write(1, b"!")

sys.meta_path.insert(0, Tells())
sys.argv[1:] = {arguments!r}
runpy.run_module("flaskstream", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("milliseconds", [0, 10, 30, 60, 100, 200])
def test_nor_is_there_a_traceback_at_any_other_moment(milliseconds):
    code = _BEGINS.format(arguments=["check", "checked:healthy()", "/slow", "--seconds", "60"])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, cwd=str(APPS), **pipes) as process:
        assert process.stdout.read(1) == b"!"
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (EXIT_SIGNAL + signal.SIGINT, b"")
    assert err.decode() in ("", "Error: interrupted by SIGINT; all that was started has ended\n")


def test_the_installed_command_begins_where_that_is_looked_for():
    metadata = (ROOT / "setup.cfg").read_text("utf-8")
    assert "\n    flaskstream = flaskstream.__main__:main\n" in metadata.split("console_scripts =")[1]
