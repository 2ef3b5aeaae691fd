"""`flaskstream tail`, a pleasant `curl -N`: each line is out when its event is; the end is a sentence and a code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from raw_upstream import FINAL_CHUNK, Pause, answer, chunk, head

from flaskstream.doctor.measure import Request
from flaskstream.doctor.tail import Tail
from flaskstream.lab.model.script import Script

SCRIPT = Script(tokens=6, interval_ms=150)
SECONDS = SCRIPT.interval_ms / 1000
PATIENCE = 30


@contextmanager
def tailing(*arguments):
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "NO_COLOR")}
    command = [sys.executable, "-m", "flaskstream", "tail", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def tail(*arguments):
    """Return the exit code, what was printed, and what went to stderr."""
    with tailing(*arguments) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def chat(server, script=SCRIPT):
    return "-d", f'{{"q": "hello", "model": "{script.model}"}}', server.url + "/stream/chat"


def printed_at(process):
    """Return when the line of each token was printed."""
    return [time.monotonic() for line in process.stdout if '{"t":' in line]


def test_each_line_is_printed_when_its_event_comes(gunicorn):
    with tailing(*chat(gunicorn)) as process:
        printed = printed_at(process)
        assert process.wait(PATIENCE) == 0
    assert len(printed) == SCRIPT.tokens
    gaps = [later - earlier for earlier, later in zip(printed, printed[1:])]
    assert sorted(gaps)[len(gaps) // 2] > SECONDS / 2


def test_a_line_has_the_time_the_gap_and_the_event(gunicorn):
    code, out, _ = tail(*chat(gunicorn))
    lines = [line for line in out.splitlines() if '{"t":' in line]
    assert [re.sub(r"^.*?(?=\{)", "", line) for line in lines] == [f'{{"t":"{text}"}}' for text in SCRIPT.token_texts]
    second = re.match(r" +(\d\.\d{3}) s +\+(\d+) ms  ", lines[1])
    assert float(second[1]) >= SECONDS * 2 * 0.9 and int(second[2]) >= SCRIPT.interval_ms * 0.5
    assert re.search(r"#done-[0-9a-f]+ \[done\] ", out)
    assert f"{SCRIPT.tokens + 1} events, 0 comments" in out and out.endswith("ended: whole\n")
    assert code == 0


def test_heartbeats_are_shown_as_comments(raw_gunicorn, raw_upstream):
    model = raw_upstream.plays(
        head("chunked") + chunk(b": PROCESSING\n\n"), Pause(0.05), chunk(b"data: [DONE]\n\n") + FINAL_CHUNK
    )
    body = f'{{"model": "{model}", "messages": [], "stream": true}}'
    code, out, _ = tail("-d", body, raw_gunicorn.url + "/stream/v1/chat/completions")
    assert re.search(r"  : PROCESSING$", out, re.MULTILINE)
    assert (code, "[DONE]" in out) == (0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-H", "no colon", "http://127.0.0.1/"],
        ["ftp://x/"],
        ["-d", "@/no/such", "http://x/"],
        ["--timeout", "nan", "http://x/"],
        [],
    ],
)
def test_wrong_usage_says_what_was_expected(arguments):
    code, out, err = tail(*arguments)
    assert (code, out) == (64, "")
    assert "expected" in err or "Missing argument" in err


def test_a_stream_that_is_cut_is_told_from_a_whole_one(raw_gunicorn, raw_upstream):
    model = raw_upstream.plays(head("chunked") + chunk(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'), end="fin")
    body = f'{{"model": "{model}", "messages": [], "stream": true}}'
    code, out, _ = tail("-d", body, raw_gunicorn.url + "/stream/v1/chat/completions")
    assert code == 2
    assert "ended: expected the final chunk, got the end" in out


def test_no_answer_and_an_error_page_are_no_streams(gunicorn):
    code, out, _ = tail("http://127.0.0.1:1/")
    assert (code, "refused" in out) == (3, True)
    code, out, _ = tail(gunicorn.url + "/stream/chat")
    assert (code, "400" in out.splitlines()[0]) == (3, True)


def test_ctrl_c_ends_it_with_a_summary(gunicorn):
    with tailing(*chat(gunicorn, Script(tokens=1000, interval_ms=50))) as process:
        for line in process.stdout:
            if '{"t":' in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(PATIENCE) == 130
        assert "ended: " in rest and "Traceback" not in process.stderr.read()


def test_a_reader_that_goes_is_no_error(gunicorn):
    with tailing(*chat(gunicorn, Script(tokens=1000, interval_ms=20))) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) != 0
        assert "Traceback" not in process.stderr.read()


# What a server can say.


@pytest.fixture
def tail_of(raw_upstream):
    """Return what `tail` tells of a play."""

    def told(*steps, end="fin"):
        model = raw_upstream.plays(*steps, end=end)
        return tail("-d", f'{{"model": "{model}"}}', raw_upstream.url)

    return told


def test_the_media_type_is_known_in_any_case(tail_of):
    played = answer("chunked", b"id: 1\ndata: a\n\n", content_type="Text/Event-Stream; Charset=utf-8")
    code, out, _ = tail_of(played)
    assert (code, "  #1 a\n" in out) == (0, True)


def test_an_end_inside_an_event_is_told(tail_of):
    code, out, _ = tail_of(answer("chunked", b"data: a\n\ndata: b\n"))
    assert code == 2 and out.endswith("ended: cut inside an event\n")


def test_a_heartbeat_is_shown_before_the_next_event_comes(raw_upstream):
    model = raw_upstream.plays(head("chunked") + chunk(b": alive\n\n"), end="hold")
    with tailing("-d", f'{{"model": "{model}"}}', raw_upstream.url) as process:
        assert any(": alive" in line for line in process.stdout)


def test_nothing_that_a_terminal_obeys_is_printed(tail_of):
    events = ": \x1b]0;x\x07\x7f\0\n\nevent: \x1b[1m\nid: \x1b[2m\ndata: \x1b[2J\x9b2J\t\n\n".encode()
    for kind in ("text/event-stream", "text/plain"):
        played = answer("chunked", events, headers=["Server: \x1b[3m\x9b"], content_type=kind)
        code, out, _ = tail_of(played)
        assert code == 0
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)
        assert r"\x1b[2J\x9b2J" in out and r"Server: \x1b[3m\x9b" in out


def test_nothing_turns_the_text_around_it(tail_of):
    turns = "\u202e\u2066\u200f\u061c\u2028"
    code, out, _ = tail_of(answer("chunked", f"event: {turns}\ndata: a{turns}b\n\n".encode()))
    assert code == 0 and not set(turns) & set(out)
    assert r"a\u202e\u2066\u200f\u061c\u2028b" in out


def test_a_body_may_come_from_stdin(raw_upstream):
    model = raw_upstream.plays(answer("chunked", b"data: the play\n\n"))
    asked = f'{{"model": "{model}"}}'
    command = [sys.executable, "-m", "flaskstream", "tail", "-d", "@-", raw_upstream.url]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "the play" in done.stdout


def test_a_redirect_says_where_to_and_that_it_is_no_stream(tail_of):
    code, out, _ = tail_of(answer("length", status=307, headers=["Location: /elsewhere"]))
    assert code == 3
    assert "Location: /elsewhere\n" in out
    assert out.endswith("a redirect is no stream, and it is not followed: ask /elsewhere\n")


def test_a_character_that_the_network_cut_is_shown_whole(tail_of):
    first, second = "é".encode()[:1], "é".encode()[1:]
    played = head("chunked", content_type="text/plain") + chunk(b"a" + first), Pause(0.1), chunk(second) + FINAL_CHUNK
    code, out, _ = tail_of(*played)
    assert (code, "  a\n" in out, "  é\n" in out, "\ufffd" in out) == (0, True, True, False)


def test_where_it_cannot_be_written_is_an_error(gunicorn):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "flaskstream", "tail", gunicorn.url + "/stream/chat?q=hello"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert done.returncode == 3
    assert done.stderr.startswith("Error: stdout: ") and done.stderr.count("\n") == 1


def test_what_was_shown_is_held_no_longer(raw_upstream):
    piece = b"data: " + b"x" * 50_000 + b"\n\n"
    model = raw_upstream.plays(answer("chunked", *[piece] * 40))
    body = f'{{"model": "{model}"}}'.encode()
    request = Request(raw_upstream.url, "POST", body=body, max_bytes=sys.maxsize)
    tailed = Tail(request, color=False, width=80, unicode=True)
    held = [sum(map(len_of, (*tailed._exchange.reads, *tailed._exchange.pieces))) for _ in tailed.lines()]
    assert tailed.exit_code == 0 and max(held[-10:]) < 10 * len(piece)


def len_of(seen):
    return len(seen.data)
