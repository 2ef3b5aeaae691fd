"""`flaskstream check` on the HTTP client library: which ways to read an upstream hand over what is there, here."""

from __future__ import annotations

import json
import os
import socket

import pytest
import urllib3
from checking import (  # noqa: F401 - one is a fixture
    APPS,
    asked,
    assert_names,
    codes,
    in_the_folder_of_the_apps,
    the_finding,
)
from click.testing import CliRunner
from marked import wait_until

from flaskstream.cli import main
from flaskstream.doctor.check import paced, rules_reading
from flaskstream.doctor.check.examine import check
from flaskstream.doctor.check.judge import HELD, STREAMS
from flaskstream.doctor.check.paced import PIECE, PacedUpstream
from flaskstream.doctor.check.question import Question
from flaskstream.doctor.check.rules_reading import OURS, PROMPT, WAYS, how_read

FILE = APPS / "reading.py"


def ask(factory, path, config="", file="reading"):
    with PacedUpstream() as upstream:
        return check(Question(f"{file}:{factory}()", path, config=config), upstream)


@pytest.fixture
def upstream(monkeypatch):
    """The framing of the upstream that the views of `reading.py` read."""
    with PacedUpstream() as paced_one:

        def frames(framing):
            monkeypatch.setenv("UPSTREAM", f"{paced_one.url}/view/{framing}")

        yield frames


@pytest.mark.parametrize("config", ["", "none", "gunicorn_gthread.py"])
def test_each_way_in_each_framing_is_told_as_it_is(config):
    checked = ask("healthy", "/plain", config, file="checked")
    ways = {(way, framing): (way, framing) in PROMPT for way in WAYS for framing in paced.FRAMINGS}
    assert how_read(checked.seen) == ways
    assert not checked.seen.all("not_read")
    assert checked.seen.one("reader")["versions"]["urllib3"] == urllib3.__version__
    assert (checked.verdict.name, codes(checked)) == (STREAMS, [])


def test_the_words_are_there_for_every_framing():
    assert set(rules_reading.FRAMINGS) == set(paced.FRAMINGS)


def test_a_library_that_waits_is_the_hop_that_holds(upstream):
    upstream("chunked")
    checked = ask("in_place_of_urllib3", "/iter_content")
    finding = the_finding(checked, "library_holds")
    assert (checked.verdict.name, finding.row.cause) == (HELD, "client_library")
    assert "iter_content(None) chunked" in finding.sentence
    assert f"urllib3 {urllib3.__version__}" in finding.sentence


def test_beside_an_app_that_reads_nothing_it_is_a_fault_and_holds_no_stream():
    checked = ask("without_an_upstream", "/plain")
    assert (checked.verdict.name, codes(checked)) == (STREAMS, ["library_would_hold"])


@pytest.mark.parametrize("framing", ["close", "length"])
@pytest.mark.parametrize("way", ["iter_lines", "iter_content", "text"])
def test_a_view_that_reads_so_that_it_waits_for_the_end_is_named(upstream, way, framing):
    upstream(framing)
    checked = ask("reads", f"/{way}")
    assert (checked.verdict.name, codes(checked)) == (HELD, ["upstream_read_late"])
    assert_names(checked, "upstream_read_late", way, FILE)


@pytest.mark.parametrize(
    ("way", "framing"), [("iter_lines", "chunked"), ("single", "close"), ("kit", "close"), ("kit", "chunked")]
)
def test_a_view_that_reads_what_is_there_is_not(upstream, way, framing):
    upstream(framing)
    checked = ask("reads", f"/{way}")
    assert (checked.verdict.name, codes(checked)) == (STREAMS, [])


def test_the_command_tries_it_and_says_what_holds():
    told = json.loads(CliRunner().invoke(main, ["check", "checked:healthy()", "/plain", "--json"]).output)["reading"]
    assert told["versions"]["urllib3"] == urllib3.__version__
    assert len(told["ways"]) == len(WAYS) * len(paced.FRAMINGS)
    assert all(way["as_it_comes"] for way in told["ways"] if way["way"] == OURS)
    shown = CliRunner().invoke(main, ["check", "checked:healthy()", "/plain"]).output
    assert f"urllib3 {urllib3.__version__}" in shown
    (line,) = [line for line in shown.splitlines() if line.strip().startswith("iter_lines()")]
    assert line.split("  ")[-1].strip() == "held" and "as it comes" in line


# The upstream itself.


def exchange(url, framing, leaves):
    host, port = url.split("//")[1].split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"GET /{leaves}/{framing} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        received = b""
        while PIECE not in received:
            received += connection.recv(4096)
        while leaves == "stays":
            data = connection.recv(4096)
            if not data:
                break
            received += data
    return received


@pytest.mark.parametrize("framing", paced.FRAMINGS)
def test_who_leaves_after_the_first_piece_is_prompt_and_who_waits_is_not(framing):
    with PacedUpstream() as upstream:
        assert exchange(upstream.url, framing, "leaves").count(PIECE) == 1
        assert exchange(upstream.url, framing, "stays").count(PIECE) > 1
        wait_until(lambda: len(upstream.lines()) == 2)
        told = {line["way"]: line["prompt"] for line in upstream.lines()}
    assert told == {"leaves": True, "stays": False}


def test_nothing_is_left_of_it():
    before = set(os.listdir("/proc/self/fd"))
    with PacedUpstream() as upstream:
        exchange(upstream.url, "close", "stays")
    wait_until(lambda: set(os.listdir("/proc/self/fd")) == before)  # a connection is closed by its own thread
