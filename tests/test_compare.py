"""`flaskstream compare` as a user runs it: what it prints, how it exits, and that nothing of it is left."""

from __future__ import annotations

import contextlib
import html.parser
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from marked import PATIENCE, Mark

from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess

ROOT = str(pathlib.Path(__file__).parent.parent)
TOKENS = 24
QUICK = ("--clients", "2", "--tokens", str(TOKENS), "--interval-ms", "50")
"""Shorter streams leave no room for the noise of a busy machine: what is late is judged by the stream's length."""


@pytest.fixture(scope="module")
def mark():
    return Mark()


@contextlib.contextmanager
def started(mark, *arguments, **environment):
    """The command, in a session of its own as a terminal gives it; nothing that it started outlives the block."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(
        [sys.executable, "-m", "flaskstream", "compare", *arguments],
        cwd=ROOT,
        env={**inherited, **mark.environment, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
    mark.wait_until_gone()


def compare(mark, *arguments, **environment):
    """Run it to its end: (exit code, stdout, stderr, what of it still runs)."""
    with started(mark, *arguments, **environment) as process:
        out, err = process.communicate(timeout=120)
        return process.returncode, out.decode(), err.decode(), mark.commands()


@pytest.fixture(scope="module")
def compared(mark, tmp_path_factory):
    page = tmp_path_factory.mktemp("page") / "page.html"
    faults = ("--faults", "late_reader,unflushed_print")
    code, out, err, left = compare(mark, *QUICK, *faults, "--json", "--html", str(page))
    return code, json.loads(out), err.splitlines(), left, page.read_text("utf-8")


def test_it_exits_with_0_when_fixed_streams_and_broken_does_not(compared):
    code, result, *_ = compared
    assert code == 0
    assert result["verdict"]["ok"] and result["verdict"]["line"] == "Fixed streams, broken does not."


def test_the_json_has_both_modes_and_each_mistake_with_the_times_of_each_client(compared):
    _, result, *_ = compared
    assert result["schema_version"] == 1
    assert result["fixed"]["faults"] == [] and len(result["broken"]["faults"]) > 2
    assert [fault["name"] for fault in result["faults"]] == ["late_reader", "unflushed_print"]
    assert all(fault["shows"] and fault["evidence"] and fault["cure"] for fault in result["faults"])
    for run in (result["fixed"], result["broken"], *(fault["faulty"] for fault in result["faults"])):
        assert [len(client["arrivals_ms"]) for client in run["clients"]] == [TOKENS, TOKENS]
    assert result["fixed"]["debug"]["timing"] == "live"
    assert 0 < result["took_ms"] < 120_000


def test_progress_goes_to_stderr_a_line_for_each_step(compared):
    _, _, progress, _, _ = compared
    assert progress[0] == "starting gunicorn: fixed, broken, late_reader, unflushed_print"
    assert not [line for line in progress if "\r" in line or "\x1b" in line]


def test_nothing_is_left_when_it_ends(compared):
    assert compared[3] == {}


def test_the_page_is_whole_and_needs_nothing_else(compared):
    page = compared[4]
    parser = _Page()
    parser.feed(page)
    parser.close()
    assert parser.open == [] and parser.count["svg"] >= 2
    assert not parser.count.keys() & {"link", "script", "img", "iframe"}
    assert not [value for value in parser.addresses if not value.startswith("#")]


class _Page(html.parser.HTMLParser):
    """Follows which elements are open, and what the page would load."""

    def __init__(self):
        super().__init__()
        self.open, self.count, self.addresses = [], {}, []

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.addresses += [value for name, value in attributes if name in ("src", "href", "xlink:href", "data")]
        if tag not in ("meta", "br", "hr", "input", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open = self.open[:-1] if self.open[-1:] == [tag] else self.open

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag


def test_it_works_where_files_shadow_modules_a_proxy_is_set_and_the_locale_is_c(mark, tmp_path):
    for name in ("argparse.py", "queue.py", "secrets.py", "flask.py"):
        (tmp_path / name).write_text("raise SystemExit('this is the file of a user')\n")
    code = f"import sys; sys.path[:1] = [{ROOT!r}]; from flaskstream.cli import main; main(sys.argv[1:])"
    environment = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
    environment.update(mark.environment, HTTP_PROXY="http://127.0.0.1:9", LC_ALL="C", COLUMNS="40", NO_COLOR="1")
    ran = subprocess.run(
        [sys.executable, "-c", code, "compare", *QUICK, "--faults", "none"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        timeout=120,
    )
    text = ran.stdout.decode()
    assert ran.returncode == 0
    assert "Fixed streams, broken does not." in text and "\x1b" not in text
    assert mark.commands() == {}


def test_an_upstream_of_ones_own_is_asked_in_place_of_the_model(mark, model):
    arguments = ("--upstream", model.url, "--model", f"mine?tokens={TOKENS}&interval_ms=50", "--clients", "2", "--json")
    code, out, _, left = compare(mark, *arguments, "--faults", "token_accumulator")
    result = json.loads(out)
    assert (code, left) == (0, {})
    assert result["faults"][0]["shows"]
    assert result["fixed"]["complete"] == 2 and result["fixed"]["tokens"] == TOKENS
    assert 40 < result["fixed"]["interval_ms"] < 75
    assert result["faults"][0]["faulty"]["bursts"] < 5


def test_it_exits_with_1_and_the_reason_when_the_fixed_mode_does_not_stream(mark):
    with ModelProcess(Script(status=500)) as model:
        code, out, *_ = compare(mark, "--upstream", model.url, "--faults", "none", "--clients", "1")
    assert code == 1
    assert "Fixed does not stream" in out and "no client got a 2xx answer, but 500" in out


def test_it_exits_with_3_and_the_reason_when_a_server_does_not_start(mark, tmp_path):
    (tmp_path / "gevent").mkdir()
    (tmp_path / "gevent" / "__init__.py").write_text("raise ImportError('no gevent on this machine')\n")
    code, out, err, left = compare(mark, *QUICK, "--faults", "none", PYTHONPATH=str(tmp_path))
    assert (code, out, left) == (3, "", {})
    assert "no gevent on this machine" in err


# What a signal leaves.


@pytest.mark.parametrize("moment", ["starting", "reading"])
@pytest.mark.parametrize(
    ("name", "send"),
    [("SIGINT", os.killpg), ("SIGINT", os.kill), ("SIGTERM", os.kill), ("SIGHUP", os.killpg)],
    ids=["Ctrl-C", "SIGINT", "SIGTERM", "closed terminal"],
)
def test_a_signal_ends_it_and_all_that_it_started(mark, name, send, moment):
    number = signal.Signals[name]
    with started(mark, "--faults", "none") as process:
        _wait_for_progress(process, moment)
        send(process.pid, number)
        out, err = process.communicate(timeout=PATIENCE)
        # What was not even begun when the signal came ends by itself, a moment later.
        assert mark.commands() == {} or moment == "starting"
    assert (process.returncode, out) == (128 + number, b"")
    assert err.decode().splitlines()[-1] == f"Error: interrupted by {name}; all that was started has ended"


@pytest.mark.parametrize("moment", ["starting", "reading"])
def test_not_even_a_kill_leaves_anything(mark, moment):
    with started(mark, "--faults", "none") as process:
        _wait_for_progress(process, moment)
        process.kill()
        process.communicate()
        mark.wait_until_gone()


def _wait_for_progress(process, word):
    for line in process.stderr:
        if line.decode().startswith(word):
            return
    raise AssertionError(f"it never said {word!r}")
