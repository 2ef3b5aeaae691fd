"""What a stream in a store may cost, and whom: floods, limits, slow readers, and stores that are used in odd ways."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from recorded import (
    LEASE,
    TESTS,
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

from flaskstream import Upstream, create_blueprint
from flaskstream.doctor.measure import Request, open_exchange, record
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.resume.live import ROOM_BYTES, ROOM_RECORDS
from flaskstream.resume.streams import Streams
from flaskstream.stores import open_store
from flaskstream.stores.memory import MemoryStore
from flaskstream.stores.protocol import STOPPED, NewStream
from flaskstream.testing import serve

SIZE, COUNT = 200, 110_000  # of a flood's events


def named(prefix):
    return f"{prefix}-{secrets.token_hex(4)}"


@pytest.fixture
def flood():
    """The URL of an upstream that floods."""
    command = [sys.executable, os.path.join(TESTS, "flooding.py"), str(SIZE), str(COUNT)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    with process, process.stdout as announced:
        yield announced.readline().decode().strip()
        process.kill()


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_an_upstream_that_floods_holds_nobody_up(request, flood, store, tmp_path):
    with recorded_server(flood, store_url(request, store, tmp_path)) as server, ThreadPoolExecutor(1) as pool:
        flooded = pool.submit(begin, server, script("flood"))
        waits = []
        while not flooded.done():
            asked = ask(server, "HEAD", "f" * 32)
            waits.append(asked.ended_at - asked.sent_at)
        whole = flooded.result()
    assert said_text(whole) == "x" * SIZE * COUNT
    # Nobody who asks meanwhile waits for much of it.
    assert len(waits) > 4 and sum(sorted(waits)[-2:]) < (whole.ended_at - whole.sent_at) / 4


def test_a_producer_waits_while_its_store_is_far_behind():
    class Slow(MemoryStore):
        shared = True

        def append(self, batches, lease):
            sizes.append(sum(len(batch.records) for batch in batches))
            time.sleep(0.01)
            return super().append(batches, lease)

    sizes = []
    streams = Streams(Slow())
    words = (f"{n}" for n in range(10 * ROOM_RECORDS))
    begun = streams.begin(NewStream("a" * 32, "0" * 20), lambda turn: words)
    wait_until(lambda: streams.info("a" * 32).state == "done")
    assert max(sizes) <= ROOM_RECORDS + 1
    assert begun.is_kept and ROOM_BYTES


def test_an_answer_that_would_fill_the_store_alone_is_ended(model):
    large = script(named("large"), tokens=200, interval_ms=0)
    with recorded_server(model.url, "memory:", retention={"bytes": 2000}) as server:
        assert names(begin(server, large)) == ["message", "error"]


def test_who_finds_no_place_is_told_so_and_not_charged(model, tmp_path):
    said = script(named("place"), tokens=200)
    with recorded_server(model.url, f"sqlite:{tmp_path}/streams.db", max_streams=2) as server:
        with ThreadPoolExecutor(5) as pool:
            answers = list(pool.map(lambda _: begin(server, said, stop_after=20), range(5)))
        refused = [answer for answer in answers if answer.status == 503]
        assert len(refused) == 3 and all(answer.header("Retry-After") for answer in refused)
        assert all(json.loads(answer.body)["error"]["code"] == "too_many_streams" for answer in refused)
        assert len(calls(model, said)) == 2


def test_a_finished_answer_is_read_at_leisure_however_short_one_may_last(model):
    said = script(named("leisure"), tokens=6, interval_ms=20)
    with recorded_server(model.url, "memory:", max_duration=1.0) as server:
        whole = begin(server, said)
        url = f"{server.url}/stream/streams/{stream_id(whole)}"
        with open_exchange(Request(url, timeout=10)) as exchange:
            slow = exchange.events()
            first = next(slow)
            time.sleep(1.2)
            rest = [timed.event for timed in slow]
        assert first.event.id and [event.event for event in rest][-1] == "done"
        too_long = begin(server, script(named("long"), tokens=500))
        assert too_long.events[-1].event.json()["code"] == "max_duration" and too_long.events[-1].event.id


def test_a_refusal_is_the_same_for_all_who_wait_for_the_answer(request, model, tmp_path):
    refused = script(named("refused"), status=429, retry_after=7, slow_headers_ms=500)
    key = ("Idempotency-Key", secrets.token_hex(8))
    store = f"sqlite:{tmp_path}/streams.db"
    with recorded_server(model.url, store, workers=2) as server, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: begin(server, refused, key), range(8)))
    assert {(answer.status, answer.header("Retry-After")) for answer in answers} == {(429, "7")}
    assert len(calls(model, refused)) == 1


@pytest.fixture
def mounted(model):
    """Two blueprints on one store."""
    app, store = Flask("mounted"), open_store("memory:")
    for name in ("one", "two"):
        blueprint = create_blueprint(Upstream(model.url), store, name=name, debug=True, orphan_timeout=0.5)
        app.register_blueprint(blueprint, url_prefix=f"/{name}")
    with serve(app) as server:
        yield server


def test_two_mounts_of_one_store_know_of_each_other(mounted, model):
    endless = script(named("endless"), tokens=1000)
    first = begin(mounted, endless, stop_after=2, path="/one/chat")
    url = f"{mounted.url}/two/streams/{stream_id(first)}"
    reading = record(Request(url, timeout=10), stop_after=30)  # and keeps it from being an orphan meanwhile
    assert len(reading.events) == 30
    assert record(Request(url, "DELETE", timeout=10)).status == 204
    wait_until(lambda: calls(model, endless)[0]["ended"] == "peer_left")
    assert record(Request(url, "HEAD", timeout=10)).header("X-Stream-State") == STOPPED


def test_a_reader_elsewhere_is_seen_though_it_looks_seldom(model, tmp_path):
    quiet = script(named("quiet"), tokens=4, silence_after=2, silence_ms=4000)
    with recorded_server(
        model.url, f"sqlite:{tmp_path}/streams.db", workers=2, lease=40.0, orphan_timeout=1.5
    ) as server:
        first = begin(server, quiet, stop_after=1)
        with ThreadPoolExecutor(6) as pool:  # at both workers, in all likelihood
            readers = list(pool.map(lambda _: follow(server, stream_id(first)), range(6)))
    assert {said_text(reader) for reader in readers} == {quiet.text}


def test_the_id_of_an_end_counts_in_the_query_too(model):
    said = script(named("query"), tokens=2)
    with recorded_server(model.url, "memory:") as server:
        url = f"{server.url}/stream/chat?q=hello&last_event_id=done-0123456789abcdef0123"
        assert record(Request(url, timeout=10)).status == 204
        whole = begin(server, said)
        assert follow(server, stream_id(whole), query="?last_event_id=done-0123456789abcdef0123").status == 204


def test_a_failed_stream_keeps_its_name_for_its_owner(model):
    name = ("X-Stream-Id", secrets.token_urlsafe(16))
    failed = script(named("failed"), status=500)
    alice, bob = ("X-User", "alice"), ("X-User", "bob")
    with recorded_server(model.url, "memory:") as server:
        assert begin(server, failed, name, alice).status == 500
        assert begin(server, script("tick", tokens=2), name, bob).status == 404
        assert ask(server, "HEAD", name[1], alice).header("X-Stream-State") == "failed"


@pytest.mark.parametrize("owner, expected", [("ann", 200), (7, 200), (uuid.uuid4(), 200), (object(), 500)])
def test_an_owner_is_something_that_is_the_same_in_each_process(model, owner, expected):
    app = Flask("owner")
    app.register_blueprint(create_blueprint(Upstream(model.url), "memory:", debug=True, owner=lambda: owner))
    with serve(app) as server:
        assert begin(server, script("tick", tokens=2), path="/chat").status == expected


def test_an_older_history_of_the_same_name_is_ended_when_a_new_one_begins():
    def endless(turn):
        while True:
            yield "more"
            time.sleep(0.01)

    store = MemoryStore()
    ended = []
    streams = Streams(store, on_answer=ended.append)
    streams.begin(NewStream("a" * 32, "0" * 20), endless)
    store.forget("a" * 32, "0" * 20)  # as a store does that was set back
    streams.begin(NewStream("a" * 32, "1" * 20), endless)
    wait_until(lambda: ended)
    streams.stop("a" * 32)
    wait_until(lambda: len(ended) == 2)
    assert [report.reason for report in ended] == ["producer_lost", "request"]


@pytest.mark.parametrize("store", ["memory:", "sqlite:{}/streams.db"])
def test_a_store_works_though_it_was_made_before_gevent_has_patched(model, store, tmp_path):
    told = json.dumps({"store": store.format(tmp_path), "lease": LEASE})
    said = script(named("preload"), tokens=4)
    arguments = ("-k", "gevent", "--preload", "--timeout", "10")
    settings = {"upstream": model.url, "model": told}
    with GunicornProcess(settings, arguments, "apps.recorded:create_app()", "apps/gunicorn_plain.py", TESTS) as server:
        server.wait_until_it_answers()
        assert said_text(begin(server, said)) == said.text
