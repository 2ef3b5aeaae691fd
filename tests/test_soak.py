"""The soak runs, and sees what it is there to see. (The minutes of it are `make soak`.)"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from relay_client import CHAT, COMPLETIONS
from soak.clients import Got
from soak.judge import Verdict, judge
from soak.plays import Play

from flaskstream.lab.processes import environment

TESTS = os.path.dirname(os.path.abspath(__file__))

WHOLE = Play("m", "whole", "ab", True)
CUT = Play("m", "closes", "ab", False)
A, B = b'data: {"t": "a"}\n\n', b'data: {"t": "b"}\n\n'
RAW_A = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
DONE = b"event: done\nid: done\ndata: {}\n\n"
ERROR = b'event: error\ndata: {"code": "upstream_truncated"}\n\n'
RAW_ERROR = b'data: {"error": {"code": "upstream_truncated"}}\n\n'


@pytest.mark.parametrize("worker", ["gevent", "gthread"])
def test_a_few_seconds_of_trouble_leave_nothing_behind(worker: str) -> None:
    command = [sys.executable, "-m", "soak", "--seconds", "3", "--clients", "16", "--worker", worker]
    done = subprocess.run(
        command, cwd=TESTS, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said
    assert "SIG" in said  # some worker was hit


def seen(play: Play, route: str, body: bytes, is_proper: bool = True, status: int = 200, left: bool = False) -> Verdict:
    got = Got(play, route, "reads_all", status=status, body=bytearray(body), is_proper=is_proper, left=left)
    return judge(got)


@pytest.mark.parametrize(
    "verdict",
    [
        seen(CUT, CHAT, A + DONE),
        seen(CUT, COMPLETIONS, RAW_A),
        seen(WHOLE, CHAT, A + DONE),
        seen(WHOLE, COMPLETIONS, RAW_A),
        seen(WHOLE, CHAT, A + B),
        seen(WHOLE, CHAT, B, is_proper=False),
        seen(WHOLE, CHAT, DONE + A),
        seen(CUT, CHAT, A + ERROR + DONE),
        seen(CUT, COMPLETIONS, RAW_A + RAW_ERROR),
        seen(Play("m", "refuses", status=429), CHAT, DONE),
        seen(WHOLE, CHAT, b"", status=418),
    ],
)
def test_what_must_never_happen_is_seen(verdict: Verdict) -> None:
    assert verdict.wrong


@pytest.mark.parametrize(
    "verdict",
    [
        seen(WHOLE, CHAT, A + ERROR),
        seen(WHOLE, CHAT, A, is_proper=False),
        seen(CUT, COMPLETIONS, RAW_A, is_proper=False),
        seen(WHOLE, CHAT, b"{}", status=502),
    ],
)
def test_what_needs_an_excuse_is_seen(verdict: Verdict) -> None:
    assert verdict.unexpected and not verdict.wrong


@pytest.mark.parametrize(
    "verdict",
    [
        seen(WHOLE, CHAT, A + b": hb\n\n" + B + DONE),
        seen(CUT, CHAT, A + ERROR),
        seen(CUT, COMPLETIONS, RAW_A + RAW_ERROR, is_proper=False),
        seen(WHOLE, CHAT, A, is_proper=False, left=True),
        seen(WHOLE, CHAT, b'{"error": {"code": "too_many_streams"}}', status=503),
        seen(Play("m", "refuses", status=429), CHAT, b"{}", status=429),
    ],
)
def test_what_is_as_it_should_be_is_left_in_peace(verdict: Verdict) -> None:
    assert not verdict.wrong and not verdict.unexpected
