"""`flaskstream doctor` as a user has it: what it prints, its JSON, its page, its exit codes."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from flaskstream.cli import main
from flaskstream.cli.console import EXIT_INTERRUPTED
from flaskstream.doctor.exit_codes import EXIT_CANNOT_TELL, EXIT_HELD, EXIT_STREAMS, EXIT_USAGE
from flaskstream.lab.gunicorn import GunicornProcess

PATIENCE = 90
NOBODY = "http://127.0.0.1:1/stream/probe"


def doctor(*arguments):
    """Return the exit code and what was printed."""
    command = [sys.executable, "-m", "flaskstream", "doctor", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def healthy(gunicorn):
    """Both kinds of URL at one hop: the answer as JSON, and the page."""
    return gunicorn.url + "/stream/probe", gunicorn.url + "/stream/chat?q=hello"


def test_a_healthy_hop_streams_and_takes_five_seconds_at_most(healthy, tmp_path):
    page = tmp_path / "doctor.html"
    code, out, _ = doctor("--json", "--html", str(page), healthy[0])
    found = json.loads(out)
    assert code == EXIT_STREAMS
    assert (found["schema_version"], found["offenders"]) == (1, [])
    (hop,) = found["hops"]
    assert (hop["url"], hop["verdict"], hop["causes"]) == (healthy[0], "streams", [])
    assert hop["delay_ms"]["median"] < hop["delay_ms"]["max"] + 1
    assert "gunicorn" in hop["fingerprint"]["app"]
    assert set(hop["looks"]) >= {"first", "two", "browser", "gzip", "br", "zstd", "post", "plain", "ndjson", "leave"}
    assert found["seconds"] < 10  # twice what it may take, on a machine that does other things as well
    html = page.read_text("utf-8")
    assert html.count("<svg role") == 1 and "Every hop streams" in html
    assert not re.search(r"""(?:src|href)\s*=|<script|url\(""", html)


def test_the_report_says_it_in_words_and_draws_it(healthy):
    code, out, _ = doctor(healthy[0])
    assert code == EXIT_STREAMS
    assert "✓ streams: 16 ticks" in out and out.endswith("✓ Every hop streams.\n")
    (timeline,) = [line for line in out.splitlines() if re.fullmatch(r"[ ▁-█·]+✓", line)]
    assert len(re.findall("[▁-█]", timeline)) > 10


def test_an_ordinary_endpoint_can_be_asked_and_the_probe_beside_it(healthy):
    probe, chat = healthy
    code, out, _ = doctor("--json", "--probe", probe, chat)
    found = json.loads(out)
    assert code == EXIT_STREAMS
    assert [(hop["url"], hop["verdict"]) for hop in found["hops"]] == [(chat, "streams"), (probe, "streams")]


@pytest.mark.parametrize(
    "faults, verdict, cause",
    [
        ("joined_body", "held_to_end", "joined_body"),
        ("unstreamed_upstream", "held_to_end", "late_upstream_reader"),
    ],
)
def test_a_view_that_holds_is_told_from_a_hop_by_the_probe_beside_it(model, healthy, faults, verdict, cause):
    with GunicornProcess({"upstream": model.url, "faults": faults}) as server:
        server.wait_until_it_answers()
        code, out, _ = doctor("--json", "--probe", healthy[0], server.url + "/stream/chat?q=hello")
    found = json.loads(out)
    held, probe = found["hops"]
    assert (code, found["offenders"], probe["verdict"]) == (EXIT_HELD, [0], "streams")
    assert held["verdict"] == verdict
    assert cause in [found["cause"] for found in held["causes"]]
    assert all(found["evidence"] and found["cure"] for found in held["causes"])


def test_a_view_that_sends_sentences_is_a_note_for_they_may_be_what_its_source_says(model):
    with GunicornProcess({"upstream": model.url, "faults": "token_accumulator"}) as server:
        server.wait_until_it_answers()
        code, out, _ = doctor("--json", server.url + "/stream/chat?q=hello")
    (hop,) = json.loads(out)["hops"]
    assert (code, hop["verdict"]) == (EXIT_STREAMS, "streams")
    assert "token_accumulator" in hop["notes"][0]


def test_without_a_probe_it_says_what_would_tell(model):
    with GunicornProcess({"upstream": model.url, "faults": "joined_body"}) as server:
        server.wait_until_it_answers()
        code, out, _ = doctor(server.url + "/stream/chat?q=hello")
    assert code == EXIT_HELD
    assert "--probe" in out and "held_to_end" in out


def test_nobody_there_cannot_be_judged():
    code, out, _ = doctor("--json", NOBODY)
    (hop,) = json.loads(out)["hops"]
    assert (code, hop["verdict"]) == (EXIT_CANNOT_TELL, "unreachable")


def test_a_page_that_is_no_stream_is_told(gunicorn):
    code, out, err = doctor("-q", gunicorn.url + "/no/such/probe")
    assert code == EXIT_CANNOT_TELL
    assert "not_a_stream" in out
    assert err == ""  # the verdict alone, and no progress


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["ftp://x/probe"],
        ["--silence", "-1", NOBODY],
        ["--silence", "nan", NOBODY],
        ["-H", "x", NOBODY],
        ["--no-such"],
    ],
)
def test_wrong_usage_has_its_own_code(arguments):
    assert CliRunner().invoke(main, ["doctor", *arguments]).exit_code == EXIT_USAGE


@pytest.mark.parametrize("option", ["-X", "-d"])
def test_the_probe_takes_no_method_and_no_body(option):
    code, out, err = doctor(option, "POST", "http://127.0.0.1:1/chat", NOBODY)
    assert (code, out) == (EXIT_USAGE, "")
    assert f"expected the URL of an ordinary endpoint, got the probe, {NOBODY}" in err


def test_a_body_may_be_any_bytes_and_the_probe_is_beside_it():
    code, out, _ = doctor("-q", "-d", b"\xff", "--probe", NOBODY, "http://127.0.0.1:1/chat")
    assert (code, "unreachable" in out) == (EXIT_CANNOT_TELL, True)


def test_a_page_that_cannot_be_written_is_an_error_after_the_report():
    code, out, err = doctor("-q", "--html", "/dev/full", NOBODY)
    assert (code, "unreachable" in out) == (EXIT_CANNOT_TELL, True)
    assert "Error: --html: expected a file that can be written, got " in err


def test_a_report_that_cannot_be_written_is_an_error():
    command = [sys.executable, "-m", "flaskstream", "doctor", "--json", NOBODY]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert done.returncode == EXIT_CANNOT_TELL
    assert "Error: stdout: " in done.stderr and "Traceback" not in done.stderr


def test_no_color_and_ascii_are_kept(healthy, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code, out, _ = doctor(healthy[0])
    assert code == EXIT_STREAMS and out.isascii() and "\x1b" not in out


def test_ctrl_c_ends_it_at_once_also_while_a_server_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # its backlog takes the connection, and nobody answers
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/stream/probe"
        command = [sys.executable, "-m", "flaskstream", "doctor", url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert "15 ticks" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (EXIT_INTERRUPTED, "")
    assert "interrupted" in err and "Traceback" not in err


def test_the_probe_s_url_may_carry_a_token_which_is_a_note(healthy):
    code, out, _ = doctor(healthy[0] + "?token=abc")
    assert (code, "which it ignored: token" in " ".join(out.split())) == (EXIT_STREAMS, True)


def test_the_probe_s_url_may_be_one_that_was_tried_by_hand(healthy):
    code, out, _ = doctor("-q", healthy[0] + "?count=3&interval=500")
    assert (code, "Every hop streams" in out) == (EXIT_STREAMS, True)
