"""Tokens that go by the greenlet, in gevent's hub: nothing is lost on the way, and whoever stands in it is heard."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, Iterator
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from answer_vectors import DONE, said
from apps.express import HEARTBEAT_SECONDS, IDLE_SECONDS
from raw_upstream import FINAL_CHUNK, Pause, RawUpstream, chunk, head, wait_for
from relay_client import COMPLETIONS, chat, complete, end, text

from flaskstream.lab.gunicorn import GunicornProcess

TESTS = os.path.dirname(os.path.abspath(__file__))
WORDS = [f"word {n} " for n in range(12)]
TICK = Pause(0.02)
SLOW = Pause(0.12)


def running(raw_upstream: RawUpstream, factory: str) -> GunicornProcess:
    return GunicornProcess(
        {"upstream": raw_upstream.url},
        ("--access-logfile", "-", "--access-logformat", "sent=%(B)s path=%(U)s"),
        f"apps.express:{factory}()",
        folder=TESTS,
    )


@pytest.fixture(scope="module")
def server(raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    with running(raw_upstream, "create_app") as process:
        process.wait_until_it_answers()
        yield process


def went(server: Any) -> int:
    """How many tokens went the express way in all."""
    with urlopen(server.url + "/went") as answer:
        return int(json.load(answer))


def ticking(*words: str, tick: Pause = TICK) -> list[Any]:
    return [step for word in words for step in (chunk(said(word)), tick)]


def spoken(raw_upstream: RawUpstream, *steps: Any) -> str:
    return raw_upstream.plays(head("chunked"), *steps, chunk(DONE) + FINAL_CHUNK)


@pytest.mark.parametrize("ask", [chat, complete])
def test_tokens_go_by_the_greenlet(server: Any, raw_upstream: RawUpstream, ask: Any) -> None:
    before = went(server)
    answer = ask(server, spoken(raw_upstream, *ticking(*WORDS, tick=SLOW)))
    assert went(server) - before >= len(WORDS) / 2
    if ask is chat:
        assert text(answer) == "".join(WORDS) and end(answer).json() == {"events": len(WORDS)}
    else:
        assert answer.body == b"".join(map(said, WORDS)) + DONE and answer.framing_complete
    gaps = [later.at - sooner.at for sooner, later in zip(answer.events, answer.events[1 : len(WORDS)])]
    assert sum(gap > SLOW.seconds / 4 for gap in gaps) > len(gaps) / 2


@pytest.mark.parametrize("factory", ["create_wrapped", "create_encoding"])
def test_what_stands_between_is_not_passed_by(raw_upstream: RawUpstream, factory: str) -> None:
    with running(raw_upstream, factory) as wrapped:
        wrapped.wait_until_it_answers()
        answer = complete(wrapped, spoken(raw_upstream, *ticking(*WORDS)))
        assert b"".join(map(said, WORDS)).upper() in answer.body
        with urlopen(wrapped.url + "/went") as told:
            assert json.load(told) == 0


def test_what_is_unusual_wakes_the_greenlet_and_nothing_is_lost(server: Any, raw_upstream: RawUpstream) -> None:
    pieces: list[bytes] = []
    for n, word in enumerate(WORDS * 3):
        event = said(word)
        cut = 1 + n * 7 % (len(event) - 1)
        pieces += [event, event[:cut], event[cut:], event * 3, b": ping\n\n", said("ünï 🙂 \n"), said("")]
    steps = [
        step for n, piece in enumerate(pieces) for step in ((chunk(piece), TICK) if n % 5 == 0 else (chunk(piece),))
    ]
    answer = complete(server, spoken(raw_upstream, *steps))
    assert answer.body.replace(b": hb\n\n", b"") == b"".join(pieces) + DONE


def test_a_client_that_reads_nothing_for_a_while_gets_every_byte(server: Any, raw_upstream: RawUpstream) -> None:
    words = [f"{n} " + "x" * 1000 for n in range(12_000)]
    model = spoken(raw_upstream, *ticking(*WORDS), *(chunk(said(word)) for word in words))
    fields = {"model": model, "messages": [], "stream": True}
    parts = urlsplit(server.url)
    body = json.dumps(fields).encode()
    request = f"POST {COMPLETIONS} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as client:
        client.sendall(request.encode() + body)
        time.sleep(IDLE_SECONDS * 1.5)  # the buffers of both sides are full, and that is no silence of the upstream's
        whole = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert whole.partition(b"\r\n\r\n")[2] == b"".join(map(said, WORDS + words)) + DONE


def processor_seconds(server: Any) -> float:
    with open(f"/proc/{server.pid}/task/{server.pid}/children") as children:
        worker = children.read().split()[0]
    with open(f"/proc/{worker}/stat") as stat:
        user, system = stat.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_a_silence_behind_them_has_heartbeats_and_costs_nothing(server: Any, raw_upstream: RawUpstream) -> None:
    silence = 4 * HEARTBEAT_SECONDS
    model = spoken(raw_upstream, *ticking(*WORDS), Pause(silence), *ticking(*WORDS))
    before = processor_seconds(server)
    answer = complete(server, model)
    assert processor_seconds(server) - before < silence / 2
    beats = [comment.at for comment in answer.comments]
    assert 2 <= len(beats) <= 8 and all(
        later - sooner > HEARTBEAT_SECONDS / 2 for sooner, later in zip(beats, beats[1:])
    )
    assert answer.body.replace(b": hb\n\n", b"") == b"".join(map(said, WORDS * 2)) + DONE


def test_a_client_that_leaves_is_left(server: Any, raw_upstream: RawUpstream) -> None:
    model = spoken(raw_upstream, *ticking(*WORDS * 50))
    complete(server, model, stop_after=20)
    wait_for(lambda: raw_upstream.asked_for(model)[0].over)
    assert raw_upstream.asked_for(model)[0].left_at is not None


def test_the_access_log_counts_what_was_sent(server: Any, raw_upstream: RawUpstream) -> None:
    answer = complete(server, spoken(raw_upstream, *ticking(*WORDS)))
    line = f"sent={len(answer.body)} path={COMPLETIONS}\n".encode()
    wait_for(lambda: line in [line for _, line in server.stdout_lines()])


def test_a_heartbeat_does_not_make_a_silence_begin_anew(raw_upstream: RawUpstream) -> None:
    with running(raw_upstream, "create_patient") as server:
        server.wait_until_it_answers()
        answer = chat(server, raw_upstream.plays(head("chunked"), *ticking(*WORDS), Pause(4 * IDLE_SECONDS)))
        server.kill()
    *tokens, end = answer.events
    assert json.loads(end.event.data)["code"] == "idle_timeout" and len(tokens) == len(WORDS)
    assert 0.9 * IDLE_SECONDS < end.at - tokens[-1].at < 1.5 * IDLE_SECONDS


@pytest.mark.parametrize("ask", [chat, complete])
def test_a_key_that_the_upstream_repeats_with_escapes_is_hidden(raw_upstream: RawUpstream, ask: Any) -> None:
    key = "sk-very-secret/abc"
    repeated = said(f"your key is {key}").replace(b"/", rb"\/")
    with GunicornProcess({"upstream": raw_upstream.url, "api_key": key}) as server:
        server.wait_until_it_answers()
        steps = [
            *ticking(*WORDS),
            chunk(repeated),
            TICK,
            chunk(repeated[:60]),
            TICK,
            chunk(repeated[60:]),
            *ticking("end"),
        ]
        answer = ask(server, spoken(raw_upstream, *steps))
        server.kill()
    data = "".join(timed.event.data for timed in answer.events)
    assert data.count("your key is ****") == 2 and "secret" not in data and "end" in data
