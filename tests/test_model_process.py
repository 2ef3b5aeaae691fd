"""The model as a process: it says where it listens, and never outlives who started it."""

import os
import re
import signal
import subprocess
import sys

import pytest
from raw_client import Connection, ask, chat

from flaskstream.lab.model.answer import answer
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess, ProcessFailed

COMMAND = [sys.executable, "-m", "flaskstream.lab.model"]
SOON_SECONDS = 20


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def started():
    """Start the command by hand; whatever became of it is over at the end of the test."""
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            pipe.close()


def test_it_prints_exactly_one_line_when_it_listens(started):
    process = started("--until-stdin-closes", "--model", "mine?tokens=1&interval_ms=1")
    line = process.stdout.readline().decode()
    url = re.fullmatch(r"flaskstream model listening on (http://127\.0\.0\.1:\d+/v1)\n", line).group(1)
    assert b"[DONE]" in ask(url, "gpt-4o-mini").received
    out, err = process.communicate(timeout=SOON_SECONDS)
    assert (out, err, process.returncode) == (b"", b"", 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_a_signal(started, number):
    process = started()
    process.stdout.readline()
    process.stdin.close()  # without the option that is nothing to it
    process.stdin = None
    process.send_signal(number)
    out, err = process.communicate(timeout=SOON_SECONDS)
    assert (out, err, process.returncode) == (b"", b"", 0)


def test_it_ends_with_its_standard_input_even_while_a_stream_is_silent(started):
    process = started("--until-stdin-closes")
    url = process.stdout.readline().decode().split()[-1]
    process.stdin.write(b"whatever is written is no end\n")
    process.stdin.flush()
    assert b"[DONE]" in ask(url, "tick?tokens=1&interval_ms=1").received
    with Connection(url) as connection:
        connection.send(chat("tick?silence_after=0"))
        connection.read_until(b"assistant")
        process.stdin.close()
        assert process.wait(SOON_SECONDS) == 0
        assert not connection.read()


def test_it_ends_when_its_parent_is_killed():
    code = (
        "import time; from flaskstream.lab.processes import ModelProcess\n"
        "model = ModelProcess(); print(model.url, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        try:
            with Connection(parent.stdout.readline().decode().strip()) as connection:
                connection.send(chat("tick?silence_after=0"))
                connection.read_until(b"assistant")
                parent.kill()
                connection.read_to_end()  # only its going can end this stream
        finally:
            parent.kill()


def test_a_wrong_script_is_refused_at_the_start(started):
    process = started("--model", "tick?tokns=3")
    out, err = process.communicate(timeout=SOON_SECONDS)
    assert (out, process.returncode) == (b"", 2)
    assert b"got 'tokns'" in err


def test_the_default_script_answers_every_name_without_a_query_string():
    default = Script(name="mine", tokens=2, interval_ms=1, framing="close")
    with ModelProcess(default) as model:
        assert ask(model.url, "gpt-4o").raw_body == answer(Script(name="gpt-4o", tokens=2)).body
        assert ask(model.url, "x?tokens=1&interval_ms=1&framing=close").raw_body == answer(Script("x", tokens=1)).body


def test_a_model_that_cannot_listen_says_why():
    with ModelProcess() as first:
        port = int(first.url.split(":")[2].split("/")[0])
        with pytest.raises(ProcessFailed, match="Address already in use"):
            ModelProcess(port=port)


def test_closing_it_ends_it_and_may_be_repeated():
    model = ModelProcess()
    assert is_alive(model.pid)
    model.close()
    assert not is_alive(model.pid)
    model.close()


def test_it_runs_where_the_working_directory_is_another(tmp_path):
    code = "from flaskstream.lab.processes import ModelProcess\nwith ModelProcess() as model: print(model.requests())"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r})\n{code}"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    assert ran.stdout == b"[]\n"
