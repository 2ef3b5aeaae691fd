"""What the store keeps is limited, and what nobody follows is stopped."""

from __future__ import annotations

import json
import re
import secrets
from urllib.request import urlopen

import pytest
from recorded import (
    PATIENCE,
    after,
    ask,
    begin,
    calls,
    follow,
    names,
    recorded_server,
    said_text,
    script,
    store_url,
    stream_id,
    wait_until,
)
from relay_client import events
from returning import Returning

KEPT = 3
ORPHAN_SECONDS = 1.5
FEW = 5
STORES = ("memory", "sqlite", "redis")


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return store_url(request, request.param, tmp_path)


@pytest.fixture
def endless():
    return script(f"endless-{secrets.token_hex(4)}", tokens=2000)


def figures(server):
    """What `/stats` says of the store, in both of its forms."""
    with urlopen(f"{server.url}/stream/stats", timeout=PATIENCE) as answer:
        told = json.load(answer)["store"]
    with urlopen(f"{server.url}/stream/stats?format=prometheus", timeout=PATIENCE) as answer:
        lines = re.findall("^flaskstream_store_(.*) (.*)$", answer.read().decode(), re.MULTILINE)
    assert set(dict(lines)) == set(told)
    return told


def state(server, name):
    return ask(server, "HEAD", name).header("X-Stream-State")


def test_streams_above_the_limit_are_evicted_in_the_background(model, store):
    said = script(f"kept-{secrets.token_hex(4)}", tokens=4, interval_ms=5)
    limits = {"seconds": 20.0, "streams": KEPT}
    with recorded_server(model.url, store, retention=limits) as server:
        answers = [begin(server, said) for _ in range(KEPT + 2)]
        ids = [stream_id(answer) for answer in answers]
        wait_until(lambda: [state(server, one) for one in ids] == ["evicted"] * 2 + ["done"] * KEPT)
        told = figures(server)
        assert (told["streams"], told["running"], told["evicted"]) == (KEPT, 0, 2)
        assert told["records"] == KEPT * (said.tokens + 1) and told["bytes"] > KEPT * len(said.text)

        for position in ((), (after(answers[0]),)):
            told = follow(server, ids[0], *position)
            assert names(told) == ["reset"] and events(told)[0].json() == {"reason": "evicted"}
            assert told.framing_complete
        assert follow(server, ids[0], after(told)).status == 204  # a browser, that comes back by itself
        assert said_text(follow(server, ids[-1])) == said.text
        assert len(calls(model, said)) == KEPT + 2


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_an_answer_that_is_being_produced_is_never_evicted(model, store):
    said = script(f"kept-{secrets.token_hex(4)}", tokens=4, interval_ms=5)
    running = script(f"runs-{secrets.token_hex(4)}", tokens=2000)
    with recorded_server(model.url, store, retention={"seconds": 20.0, "streams": 1}) as server:
        first = Returning(server, running).wait_for(FEW)
        answers = [stream_id(begin(server, said)) for _ in range(2)]
        wait_until(lambda: [state(server, one) for one in answers] == ["evicted"] * 2)
        assert state(server, first.stream_id) == "running" and first.names == []
        assert ask(server, "DELETE", first.stream_id).status == 204
        assert first.wait().names == ["stopped"]


@pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)
def test_an_answer_that_nobody_follows_is_stopped(model, store, endless):
    with recorded_server(model.url, store, orphan_timeout=ORPHAN_SECONDS) as server:
        client = begin(server, endless, stop_after=FEW)
        wait_until(lambda: calls(model, endless)[0]["peer_left_at"])
        assert calls(model, endless)[0]["peer_left_at"] - client.ended_at > ORPHAN_SECONDS / 2
        rest = follow(server, stream_id(client), after(client))
        assert names(rest)[-1] == "stopped" and events(rest)[-1].json() == {"reason": "no_reader"}
        assert endless.text.startswith(said_text(client, rest))
        assert follow(server, stream_id(client), after(rest)).status == 204


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_reader_in_another_worker_keeps_an_answer_going(model, store):
    said = script(f"kept-{secrets.token_hex(4)}", tokens=100, interval_ms=50)
    assert said.seconds > 3 * ORPHAN_SECONDS
    with recorded_server(model.url, store, workers=2, orphan_timeout=ORPHAN_SECONDS) as server:
        first = begin(server, said, stop_after=FEW)
        reader = Returning(server, stream_id=stream_id(first), avoid=int(first.header("X-Worker"))).wait()
        assert reader.names == ["done"] and reader.text == said.text
        assert len(calls(model, said)) == 1


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_without_a_timeout_an_answer_is_produced_to_its_end(model, store):
    said = script(f"kept-{secrets.token_hex(4)}", tokens=60)
    with recorded_server(model.url, store, orphan_timeout=0) as server:
        client = begin(server, said, stop_after=1)
        wait_until(lambda: state(server, stream_id(client)) == "done")
        assert calls(model, said)[0]["ended"] == "complete"
        assert said_text(follow(server, stream_id(client))) == said.text
