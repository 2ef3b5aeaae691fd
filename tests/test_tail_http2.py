"""`flaskstream tail` speaks HTTP/2 where the server offers it, as browsers do, and says so where it cannot."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from test_tail import PATIENCE, SCRIPT, SECONDS, chat, printed_at, tail, tailing

pytest.importorskip("h2", reason="h2 is not installed")
from raw_upstream import chunk, head
from test_http2 import nginx

WITHOUT_H2 = "import sys; sys.modules['h2'] = None; from flaskstream.cli import main; main()"


def https(process):
    return process.url.replace("http:", "https:")


@pytest.fixture(scope="module")
def secured(gunicorn, certificate):
    """An nginx over TLS with HTTP/2 and HTTP/1.1, in front of the kit."""
    with nginx(gunicorn.url, certificate) as process:
        yield SimpleNamespace(url=https(process))


@pytest.fixture(scope="module")
def old(gunicorn, certificate):
    """The same with HTTP/1.1 alone."""
    with nginx(gunicorn.url, certificate, http2="") as process:
        yield SimpleNamespace(url=https(process))


def without_h2(*arguments):
    command = [sys.executable, "-c", WITHOUT_H2, "tail", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def test_each_line_is_printed_when_its_event_comes_by_http_2(secured):
    with tailing("-k", *chat(secured)) as process:
        assert process.stdout.readline() == "HTTP/2 200\n"
        printed = printed_at(process)
        assert process.wait(PATIENCE) == 0
    assert len(printed) == SCRIPT.tokens
    gaps = [later - earlier for earlier, later in zip(printed, printed[1:])]
    assert sorted(gaps)[len(gaps) // 2] > SECONDS / 2


@pytest.mark.parametrize(("flags", "spoken"), [(["--http2"], "HTTP/2"), (["--http1.1"], "HTTP/1.1")])
def test_the_version_can_be_chosen(secured, flags, spoken):
    code, out, _ = tail("-k", *flags, *chat(secured))
    assert out.startswith(f"{spoken} 200") and out.endswith("ended: whole\n") and code == 0
    assert f"{SCRIPT.tokens + 1} events" in out


def test_a_server_of_http_1_alone_is_asked_by_that_unless_it_must_be_2(old):
    code, out, _ = tail("-k", *chat(old))
    assert (code, out.partition("\n")[0]) == (0, "HTTP/1.1 200 OK")
    code, out, _ = tail("-k", "--http2", *chat(old))
    assert (code, "expected a peer that speaks HTTP/2, got http/1.1" in out) == (3, True)


def test_a_stream_of_http_2_that_is_cut_is_told_from_a_whole_one(raw_gunicorn, raw_upstream, certificate):
    model = raw_upstream.plays(head("chunked") + chunk(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'), end="fin")
    with nginx(raw_gunicorn.url, certificate) as process:
        url = https(process) + "/stream/v1/chat/completions"
        code, out, _ = tail("-k", "-d", f'{{"model": "{model}", "messages": [], "stream": true}}', url)
    assert (code, "ended: expected END_STREAM, got RST_STREAM" in out) == (2, True)


def test_without_the_package_nothing_is_said_unless_it_was_asked_for(secured):
    code, out, err = without_h2("-k", *chat(secured))
    assert (code, out.partition("\n")[0], err) == (0, "HTTP/1.1 200 OK", "")
    code, out, err = without_h2("-k", "--http2", *chat(secured))
    assert (code, out) == (64, "")
    assert err.splitlines()[-1] == 'Error: http_version: "2" needs h2 (pip install "flaskstream[http2]")'
