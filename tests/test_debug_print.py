"""The debug lines: each is out when its event is, whatever becomes of the process, and none of them hurts a stream."""

from __future__ import annotations

import io
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaskstream.debug import MAX_LINE_BYTES, MAX_LINES_PER_SECOND, DebugPrinter

ROOT = pathlib.Path(__file__).parent.parent
INTERVAL = 0.1
EVENT = b'data: {"t":" token"}\n\n'
LOST = re.compile(rb" not_printed=(\d+) ")


def run(code, **how):
    """Run Python code in a child whose stdout is not unbuffered by its environment."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    code = f"import os, signal, sys, time; sys.path.insert(0, {str(ROOT)!r})\n" + (
        f"from flaskstream.debug import DebugPrinter\nprinter = DebugPrinter()\nEVENT = {EVENT!r}\n{code}"
    )
    return subprocess.Popen([sys.executable, "-c", code], env=environment, **how)


def print_lines(count, printer=None, clock=lambda: 0.0):
    out = io.StringIO()
    printer = printer or DebugPrinter(out, clock)
    for n in range(count):
        printer("ab12", n + 1, EVENT)
    return out.getvalue().splitlines()


def every_second_anew():
    """A clock that is so fast that no line is too much in its second."""
    return itertools.count().__next__


# When they are out.


def test_each_line_is_out_within_a_tick_of_its_event():
    code = f"for n in range(6): print(time.time(), file=sys.stderr); printer('x', n + 1, EVENT); time.sleep({INTERVAL})"
    with run(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        came = [time.time() for line in child.stdout]
        printed = [float(line) for line in child.stderr]
    assert len(came) == 6
    assert all(at - said < INTERVAL for said, at in zip(printed, came))


def test_a_killed_process_leaves_the_lines_of_all_its_events():
    code = "for n in range(3): printer('x', n + 1, EVENT)\nos.kill(os.getpid(), signal.SIGKILL)"
    with run(code, stdout=subprocess.PIPE) as child:
        lines = child.stdout.read().splitlines()
    assert child.returncode == -signal.SIGKILL
    assert [line.split(b" event=")[1][:1] for line in lines] == [b"1", b"2", b"3"]


# What is in them.


def test_a_line_says_when_which_stream_which_event_how_long_and_what():
    (line,) = print_lines(1, clock=lambda: 1796000000.25)
    assert line == ('2026-11-30T00:53:20.250000Z flaskstream stream=ab12 event=1 bytes=22 wire=data: {"t":" token"}')


def test_line_ends_and_terminal_controls_do_not_get_through():
    out = io.StringIO()
    DebugPrinter(out)("x", 1, "data: a\r\ndata: \x1b[31m\x07\x9b\u2028é你🙂\n\n".encode() + b"\xff\0")
    assert out.getvalue().count("\n") == 1
    wire = out.getvalue().partition("wire=")[2]
    assert wire == r"data: a\r\ndata: \x1b[31m\x07\x9b\u2028\xe9\u4f60\U0001f642\n\n\ufffd\x00" + "\n"


@given(st.binary(max_size=700), st.integers(0, 10**9))
def test_whatever_the_event_a_line_is_one_line_of_printable_ascii_and_not_too_long(wire, lost):
    out = io.StringIO()
    printer = DebugPrinter(out)
    printer._lost = lost
    printer("x" * 16, 10**6, wire)
    text = out.getvalue()
    assert text.endswith("\n") and text[:-1].isprintable() and text.isascii()
    assert len(text) <= MAX_LINE_BYTES


def test_a_line_that_was_cut_says_so_and_one_that_fits_does_not():
    def wire_of(size):
        out = io.StringIO()
        DebugPrinter(out, lambda: 0.0)("x", 1, b"d" * size + b"\n\n")
        return out.getvalue()

    longest = max(size for size in range(MAX_LINE_BYTES) if not wire_of(size).endswith("...\n"))
    assert len(wire_of(longest)) == len(wire_of(longest + 1)) == MAX_LINE_BYTES
    assert wire_of(longest + 1).endswith("ddd...\n")


# What is left out.


def test_above_a_rate_lines_are_left_out_and_counted():
    now = [100.0]
    out = io.StringIO()
    printer = DebugPrinter(out, lambda: now[0])
    print_lines(2000, printer)
    assert len(out.getvalue().splitlines()) == MAX_LINES_PER_SECOND
    now[0] += 1
    print_lines(2, printer)
    first, second = out.getvalue().splitlines()[-2:]
    assert f" not_printed={2000 - MAX_LINES_PER_SECOND} " in first
    assert "not_printed" not in second


@pytest.fixture
def pipe():
    """A pipe, and its two ends as files. To write more than it holds fails instead of blocking."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    with open(reading, "rb", 0) as reader, open(writing, "w") as writer:
        yield reader, writer


def test_a_stalled_reader_costs_lines_and_no_time_and_they_are_counted(pipe):
    reader, writer = pipe
    printer = DebugPrinter(writer, every_second_anew())
    print_lines(5000, printer)
    before = reader.read(1 << 20).splitlines(keepends=True)
    assert 100 < len(before) < 5000
    assert len(b"".join(before)) <= 48 * 1024 + MAX_LINE_BYTES  # of 64: there is room for others who asked just now
    print_lines(1, printer)
    (after,) = reader.read(1 << 20).splitlines()
    assert int(LOST.search(after).group(1)) == 5000 - len(before)


def test_two_processes_on_one_stalled_pipe_both_go_on():
    code = "import itertools\nprinter._clock = itertools.count().__next__\nfor n in range(5000): printer('x', 1, EVENT)"
    reading, writing = os.pipe()
    with open(reading, "rb", 0) as reader:
        with open(writing, "wb", 0) as writer:
            children = [run(code, stdout=writer) for _ in range(2)]
        try:
            assert [child.wait(30) for child in children] == [0, 0]
        finally:
            for child in children:
                child.kill()
                child.wait()
        lines = reader.read(1 << 20).splitlines()
    assert all(line.endswith(EVENT.rstrip()) for line in lines)
    assert 100 < len(lines) < 10000


@pytest.fixture
def hasty_threads():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_lines_of_several_threads_stay_whole_and_are_all_counted(pipe, hasty_threads):
    reader, writer = pipe
    printer = DebugPrinter(writer, every_second_anew())

    def print_something_else():
        for _ in range(250):
            writer.write("something else\n")

    threads = [threading.Thread(target=print_lines, args=(250, printer)) for _ in range(4)]
    threads += [threading.Thread(target=print_something_else) for _ in range(2)]
    for thread in threads:
        thread.start()
    text = b""
    while any(thread.is_alive() for thread in threads):
        text += reader.read(1 << 20) or b""
    writer.flush()
    text += reader.read(1 << 20) or b""
    lines = [line for line in text.splitlines() if line != b"something else"]
    assert all(line.endswith(EVENT.rstrip()) and line.startswith(b"19") for line in lines)
    assert len(lines) + sum(int(lost) for lost in LOST.findall(text)) + printer._lost == 4 * 250


# A stdout that is none.


@pytest.mark.parametrize(
    "harm",
    ["", "sys.stdout.close()", "os.close(1)", "sys.stdout = None"],
    ids=["its reader is gone", "it is closed", "its descriptor is closed", "there is none"],
)
def test_a_stdout_that_cannot_be_written_to_is_one_warning(harm):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb", 0) as writer:
        code = f"{harm}\nprinter('x', 1, EVENT); printer('x', 2, EVENT)\nprint('goes on', file=sys.stderr)"
        with run(code, stdout=writer, stderr=subprocess.PIPE) as child:
            warning, goes_on = child.stderr.read().decode().splitlines()
    assert warning.startswith("stdout cannot be written to (") and goes_on == "goes on"
    assert child.returncode == 0


def test_a_stdout_that_is_no_file_is_written_to():
    class Adapter:  # as apps put in the place of sys.stdout, to send prints to their log
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    adapter = Adapter()
    print_lines(1, DebugPrinter(adapter))
    assert adapter.text.endswith('token"}\n')


def test_a_file_is_written_to(tmp_path):
    with open(tmp_path / "log", "w") as file:
        print_lines(1, DebugPrinter(file))
        assert (tmp_path / "log").read_text().endswith('token"}\n')
