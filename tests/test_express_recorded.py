"""Recorded tokens that go by both greenlets, that of their producer and those of its readers, in gevent's hub."""

from __future__ import annotations

import json
import secrets
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from answer_vectors import said
from apps.express import HEARTBEAT_SECONDS, LONG_SECONDS
from raw_upstream import Pause, RawUpstream, chunk
from recorded import CHAT, after, ask, follow, names, numbers, said_text, wait_until
from relay_client import chat, post
from test_express import SLOW, TICK, WORDS, running, spoken, ticking, went

from flaskstream.doctor.measure import record


@pytest.fixture(
    scope="module", params=["create_recorded", "create_recorded_on_disk", "create_recorded_by_one_that_waits"]
)
def server(request: Any, raw_upstream: RawUpstream) -> Iterator[Any]:
    with running(raw_upstream, request.param) as process:
        process.wait_until_it_answers()
        yield process


def named(name: str, server: Any, model: str) -> Any:
    return post(server, CHAT, {"q": "hello", "model": model}, ("X-Stream-Id", name))


def test_recorded_tokens_go_by_the_greenlets(server: Any, raw_upstream: RawUpstream) -> None:
    before = went(server)
    answer = chat(server, spoken(raw_upstream, *ticking(*WORDS, tick=SLOW)))
    assert went(server) - before >= len(WORDS) / 2
    assert said_text(answer) == "".join(WORDS) and names(answer) == ["message", "done"]
    assert numbers(answer)[:-1] == list(range(1, len(WORDS) + 1))
    gaps = [later.at - sooner.at for sooner, later in zip(answer.events, answer.events[1 : len(WORDS)])]
    assert sum(gap > SLOW.seconds / 4 for gap in gaps) > len(gaps) / 2


def test_tokens_that_came_together_leave_together(server: Any, raw_upstream: RawUpstream) -> None:
    before, together = went(server), 5
    steps = [step for _ in WORDS for step in (chunk(said("word") * together), SLOW)]
    answer = chat(server, spoken(raw_upstream, *steps))
    assert said_text(answer) == "word" * together * len(WORDS)
    assert len(WORDS) / 2 <= went(server) - before <= len(WORDS) + 1


def test_what_is_unusual_wakes_them_and_nothing_is_lost(server: Any, raw_upstream: RawUpstream) -> None:
    words = [f"{n} ünï 🙂 \n" if n % 3 else f"{n} plain" for n in range(60)]
    steps: list[Any] = []
    for n, word in enumerate(words):
        event = said(word)
        cut = 1 + n * 7 % (len(event) - 1)
        steps += [chunk(event[:cut]), chunk(event[cut:])] if n % 4 == 0 else [chunk(event)]
        steps += [TICK] if n % 5 == 0 else []
    answer = chat(server, spoken(raw_upstream, *steps))
    assert said_text(answer) == "".join(words) and numbers(answer)[:-1] == list(range(1, len(words) + 1))


def test_all_readers_have_all_of_it_wherever_they_begin(server: Any, raw_upstream: RawUpstream) -> None:
    name, words = secrets.token_hex(16), WORDS * 20
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(record, named(name, server, spoken(raw_upstream, *ticking(*words))))
        wait_until(lambda: int(ask(server, "HEAD", name).header("X-Stream-Events") or 0) > 20)
        epoch = str(ask(server, "HEAD", name).header("X-Last-Event-Id")).partition("-")[0]
        others = {n: pool.submit(follow, server, name, ("Last-Event-ID", f"{epoch}-{n}")) for n in (3, 17)}
        assert numbers(follow(server, name, stop_after=5))[:5] == [1, 2, 3, 4, 5]  # one that leaves
        assert said_text(first.result()) == "".join(words)
        for n, other in others.items():
            assert said_text(other.result()) == "".join(words[n:])
            assert numbers(other.result())[:-1] == list(range(n + 1, len(words) + 1))


def test_its_state_counts_what_its_readers_have(server: Any, raw_upstream: RawUpstream) -> None:
    name = secrets.token_hex(16)
    left = record(named(name, server, spoken(raw_upstream, *ticking(*WORDS), Pause(20.0))), len(WORDS))
    # At once, though its client has gone, and a store in memory is behind.
    assert ask(server, "HEAD", name).header("X-Stream-Events") == str(len(WORDS)) == str(numbers(left)[-1])
    with urlopen(f"{server.url}/stream/stats") as told:
        assert json.load(told)["store"]["records"] >= len(WORDS)
    assert ask(server, "DELETE", name).status == 204
    again = follow(server, name)
    assert said_text(again) == "".join(WORDS) and names(again) == ["message", "stopped"]


def test_a_silence_behind_them_has_heartbeats(server: Any, raw_upstream: RawUpstream) -> None:
    model = spoken(raw_upstream, *ticking(*WORDS), Pause(4 * HEARTBEAT_SECONDS), *ticking(*WORDS))
    answer = chat(server, model)
    beats = [comment.at for comment in answer.comments]
    assert 2 <= len(beats) <= 8 and all(
        later - sooner > HEARTBEAT_SECONDS / 2 for sooner, later in zip(beats, beats[1:])
    )
    assert said_text(answer) == "".join(WORDS * 2)


def test_a_client_that_reads_nothing_for_a_while_gets_every_byte(server: Any, raw_upstream: RawUpstream) -> None:
    name, words = secrets.token_hex(16), [f"{n} " + "x" * 1000 for n in range(9_000)]
    request = named(name, server, spoken(raw_upstream, *ticking(*WORDS), *(chunk(said(word)) for word in words)))
    fields = "".join(
        f"{field}: {value}\r\n" for field, value in (*request.headers, ("Content-Length", len(request.body)))
    )
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as client:
        client.sendall(f"POST {CHAT} HTTP/1.0\r\n{fields}\r\n".encode() + request.body)
        # The buffers of both sides are full, and its producer waits for no reader.
        wait_until(lambda: ask(server, "HEAD", name).header("X-Stream-State") == "done", 60)
        whole = b"".join(iter(lambda: client.recv(1 << 16), b""))
    tokens = [block for block in whole.partition(b"\r\n\r\n")[2].split(b"\n\n") if b'data: {"t"' in block]
    assert [json.loads(block.partition(b"data: ")[2])["t"] for block in tokens] == WORDS + words
    ids = [int(block.partition(b"id: ")[2].partition(b"\n")[0].rpartition(b"-")[2]) for block in tokens]
    assert ids == list(range(1, len(tokens) + 1))


@pytest.mark.parametrize("factory", ["create_unrecorded", "create_recorded_for_long"])
def test_more_than_there_is_room_for_at_once_waits_for_no_heartbeat_and_no_lease(
    raw_upstream: RawUpstream, factory: str
) -> None:
    burst, large = said("x") * 1400, said("y" * 300_000)
    steps = (*ticking(*WORDS), chunk(burst), *ticking(*WORDS), chunk(large), *ticking(*WORDS))
    with running(raw_upstream, factory) as server:
        server.wait_until_it_answers()
        began = time.monotonic()
        answer = chat(server, spoken(raw_upstream, *steps))
        assert time.monotonic() - began < LONG_SECONDS / 2
        server.kill()
    words = "".join(WORDS)
    assert said_text(answer) == words + "x" * 1400 + words + "y" * 300_000 + words and not answer.comments


def test_who_comes_back_with_the_newest_id_has_the_end_when_it_comes(raw_upstream: RawUpstream) -> None:
    name, steps = secrets.token_hex(16), (*ticking(*WORDS), Pause(HEARTBEAT_SECONDS))
    with running(raw_upstream, "create_recorded_for_long") as server:
        server.wait_until_it_answers()
        first = record(named(name, server, spoken(raw_upstream, *steps)), stop_after=len(WORDS))
        began = time.monotonic()
        rest = follow(server, name, after(first))
        assert time.monotonic() - began < LONG_SECONDS / 2  # and not with the next heartbeat
        server.kill()
    assert said_text(first) == "".join(WORDS) and names(rest) == ["done"]
