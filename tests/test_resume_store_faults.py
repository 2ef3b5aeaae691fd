"""A store goes away, hangs or fills up: live streams go on, and resume is lost aloud, with no gap and no double."""

from __future__ import annotations

import json
import resource
import secrets
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from urllib.request import urlopen

import pytest
from recorded import after, ask, begin, calls, follow, names, numbers, recorded_server, said_text, script, wait_until
from redis_server import RedisServer
from relay_client import events
from returning import Returning

from flaskstream.doctor.measure import Request, record
from flaskstream.resume.ids import lost_id
from flaskstream.resume.live import PATIENCE

FEW = 5
CANNOT = "cannot be resumed"
ROOM = 128 * 1024
"""Bytes that a disk has for the file."""
HELD_UP = 1.5 * PATIENCE
"""A stream that had to wait for a store that hangs would do so for two seconds, or five."""
BUSY = 5 * PATIENCE  # what a machine that is busy with others may add


@pytest.fixture
def redis():
    with closing(RedisServer()) as server:
        yield server


@pytest.fixture
def said():
    """An answer that goes on for some seconds after its store has failed."""
    return script(f"fault-{secrets.token_hex(4)}", tokens=90, interval_ms=40)


def stats(server):
    with urlopen(f"{server.url}/stream/stats", timeout=30) as answer:
        return json.load(answer)


def recorded_then_not(client):
    """How many of its events had ids, after it was checked that these came first, without a gap."""
    ids = [event.id for event in client.events if event.event == "message"]
    count = len([one for one in ids if one is not None and one != lost_id(one.partition("-")[0])])
    epoch = ids[0].partition("-")[0]
    assert ids[:count] == [f"{epoch}-{number}" for number in range(1, count + 1)]
    assert ids[count] == lost_id(epoch) and set(ids[count + 1 :]) <= {None}
    return count


def check_goes_on_without_store(client, said):
    """It had the whole text, and the store's failure cost at most its readers' patience."""
    assert client.wait().names == ["done"] and client.text == said.text
    assert client.proper == [True]
    gaps = [later - sooner for sooner, later in zip(client.heard_at, client.heard_at[1:])]
    assert max(gaps) < PATIENCE + BUSY
    return recorded_then_not(client)


def begins_anew(server, client, said, text):
    """Come back to a stream whose history is gone: the client is told so, or loses its stream; no gap and no double."""
    if client.status != 200:
        return client.status in (404, 503)
    before, *rest = names(client)
    if before == "reset":
        return said.text.startswith(said_text(client))
    return rest[-1:] == ["error"] and said.text.startswith(text + said_text(client))


# Redis


def crash(redis):
    redis.kill()


def hang(redis):
    redis.pause()


@pytest.mark.parametrize("worker, fail", [("gevent", crash), ("gevent", hang), ("gthread", hang)])
def test_a_live_stream_outlives_its_redis(model, redis, said, fail, worker):
    other = f"/stream/probe?count={said.tokens}&interval={said.interval_ms}"
    with recorded_server(model.url, redis.url, worker=worker) as server:
        client = Returning(server, said).wait_for(FEW)
        ticks = Ticks(server, other)
        fail(redis)
        failed_at = time.monotonic()
        count = check_goes_on_without_store(client, said)
        assert FEW <= count < said.tokens
        assert ticks.longest_gap() < HELD_UP
        lines = [line for line in server.errors().splitlines() if CANNOT in line]
        assert len(lines) == 1 and client.stream_id in lines[0]
        assert len([line for line in server.errors().splitlines() if "tried again" in line]) <= 1
        assert client.heard_at[-1] > failed_at
        told = stats(server)
        assert told["unrecorded"] == 1 and told["store"] is None
        assert len(calls(model, said)) == 1


@pytest.mark.parametrize("fail", [crash, hang])
def test_without_redis_an_answer_streams_and_one_that_may_be_asked_for_again_is_refused(model, redis, fail):
    with recorded_server(model.url, redis.url + "?socket_timeout=0.5") as server:
        begin(server, script("before", tokens=2))
        fail(redis)
        said = script(f"away-{secrets.token_hex(4)}")
        streamed = begin(server, said)
        assert said_text(streamed) == said.text and names(streamed) == ["message", "done"]
        assert streamed.header("X-Stream-Id") is None and streamed.header("Location") is None
        for header in (("Idempotency-Key", secrets.token_hex(8)), ("X-Stream-Id", secrets.token_urlsafe(16))):
            refused = begin(server, said, header)
            assert refused.status == 503 and int(refused.header("Retry-After")) > 0
        for method in ("GET", "HEAD", "DELETE"):
            assert ask(server, method, "f" * 32).status == 503
        assert len(calls(model, said)) == 1
        assert stats(server)["unrecorded"] == 1

        # A browser that has lost the connection, or has had it all: neither asks the model again.
        url = f"{server.url}/stream/chat?q=hello&model={said.name}"
        lost, done = (("Last-Event-ID", event.id) for event in (events(streamed)[0], events(streamed)[-1]))
        assert record(Request(url, headers=(done,), timeout=30)).status == 204
        if fail is crash:
            redis.start()
        else:
            redis.go_on()
        told = record(Request(url, headers=(lost,), timeout=30))
        assert names(told)[0] == "reset" and not said_text(told)

        # It is back, and so are its streams.
        again = script(f"back-{secrets.token_hex(4)}")
        first = begin(server, again, stop_after=FEW)
        assert numbers(first) == list(range(1, FEW + 1))
        rest = follow(server, first.header("X-Stream-Id"), after(first))
        assert said_text(first, rest) == again.text
        assert len(calls(model, said)) == 1


def test_an_answer_that_nobody_follows_is_stopped_without_redis_too(model, redis):
    endless = script(f"endless-{secrets.token_hex(4)}", tokens=2000)
    with recorded_server(model.url, redis.url, orphan_timeout=PATIENCE) as server:
        begin(server, endless, stop_after=FEW)
        redis.kill()
        wait_until(lambda: calls(model, endless)[0]["ended"] == "peer_left")


def test_a_redis_that_comes_back_empty_ends_no_live_stream(model, redis, said):
    with recorded_server(model.url, redis.url, workers=2) as server:
        client = Returning(server, said).wait_for(FEW)
        elsewhere = Returning(server, stream_id=client.stream_id, avoid=client.workers[0]).wait_for(FEW)
        cut = begin_reading(server, client.stream_id)
        redis.restart()
        check_goes_on_without_store(client, said)
        elsewhere.wait()
        assert elsewhere.names == ["error"] and said.text.startswith(elsewhere.text)
        back = follow(server, client.stream_id, after(cut))
        assert begins_anew(server, back, said, said_text(cut))
        assert len(calls(model, said)) == 1


def test_what_a_hanging_redis_took_after_all_is_not_told_twice(model, redis):
    """Its clients had it without ids, and it is in the store: who comes back by the last id begins anew."""
    said = script(f"fault-{secrets.token_hex(4)}", tokens=120, interval_ms=40)
    with recorded_server(model.url, redis.url, workers=2) as server:
        client = Returning(server, said).wait_for(FEW)
        redis.pause()
        client.wait_for(len(client.events) + 3 * FEW)
        assert "done" not in client.names
        text, last_id = client.text, client.last_id
        redis.go_on()
        for _ in range(3):  # by both workers, most likely
            back = follow(server, client.stream_id, ("Last-Event-ID", last_id))
            assert names(back)[0] == "reset" and names(back)[-1] in ("done", "error")
            assert said.text.startswith(said_text(back))
        assert said.text.startswith(text) and client.wait().text == said.text
        assert len(calls(model, said)) == 1


# SQLite


@pytest.fixture
def path(tmp_path):
    return tmp_path / "streams.db"


def check_file(path):
    with closing(sqlite3.connect(str(path))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def check_file_has(path, client):
    """What a client has been given an id of is in the file: looked at while nobody can write to it."""
    wait_until(lambda: client.last_id == lost_id(client.last_id.partition("-")[0]))
    given = recorded_then_not(client)
    with closing(sqlite3.connect(str(path))) as connection:
        (last,) = connection.execute("SELECT last FROM streams WHERE id = ?", (client.stream_id,)).fetchone()
    assert given <= last


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
"""


@pytest.mark.parametrize("worker", ["gevent", "gthread"])
def test_a_live_stream_outlives_a_file_that_another_process_holds(model, path, said, worker):
    with recorded_server(model.url, f"sqlite:{path}", worker=worker) as server:
        client = Returning(server, said).wait_for(FEW)
        endless = Returning(server, script(f"endless-{secrets.token_hex(4)}", tokens=2000)).wait_for(FEW)
        ticks = Ticks(server, f"/stream/probe?count={said.tokens}&interval={said.interval_ms}")
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout.readline() == b"held\n"
            wait_until(lambda: server.errors().count(CANNOT) == 2)
            check_file_has(path, client)
            time.sleep(2 * PATIENCE)
            holder.communicate(b"\n")
        check_goes_on_without_store(client, said)
        assert ticks.longest_gap() < HELD_UP
        assert stats(server)["unrecorded"] == 2
        assert ask(server, "DELETE", endless.stream_id).status == 204  # it can be stopped as before
        assert endless.wait().names == ["stopped"]
        back = follow(server, client.stream_id, ("Last-Event-ID", client.events[FEW].id))
        assert begins_anew(server, back, said, "".join(one.json()["t"] for one in client.events[: FEW + 1]))

        again = script(f"back-{secrets.token_hex(4)}")
        assert numbers(begin(server, again)) == list(range(1, again.tokens + 2))
    check_file(path)


def test_a_live_stream_outlives_a_full_disk(model, path, said):
    """The system refuses that the file grows, as a full disk does."""
    with recorded_server(model.url, f"sqlite:{path}") as server:
        first = begin(server, script("before", tokens=3))
        worker = int(first.header("X-Worker"))
        limit_files_of(worker, ROOM)
        too_much = script(f"big-{secrets.token_hex(4)}", tokens=ROOM // 30, interval_ms=1)
        big = Returning(server, too_much).wait()
        assert big.names == ["done"] and big.text == too_much.text
        assert recorded_then_not(big) > FEW
        assert server.errors().count(CANNOT) == 1 and stats(server)["unrecorded"] == 1
        assert said_text(follow(server, first.header("X-Stream-Id"))) == said_text(first)
        limit_files_of(worker, None)
        again = script(f"back-{secrets.token_hex(4)}")
        assert numbers(begin(server, again)) == list(range(1, again.tokens + 2))
    check_file(path)


def limit_files_of(pid, size):
    if not hasattr(resource, "prlimit"):
        pytest.skip("needs prlimit, which Linux has")
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


def test_a_live_stream_outlives_the_file_that_is_deleted(model, path, said):
    with recorded_server(model.url, f"sqlite:{path}", workers=2) as server:
        client = Returning(server, said).wait_for(FEW)
        elsewhere = Returning(server, stream_id=client.stream_id, avoid=client.workers[0]).wait_for(FEW)
        for one in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            one.unlink()
        check_goes_on_without_store(client, said)
        elsewhere.wait()
        assert elsewhere.names == ["error"] and said.text.startswith(elsewhere.text)
        assert follow(server, client.stream_id).status == 404
        again = script(f"back-{secrets.token_hex(4)}")
        first = begin(server, again, stop_after=FEW)
        assert said_text(first, follow(server, first.header("X-Stream-Id"), after(first))) == again.text
        assert len(calls(model, said)) == 1
    check_file(path)


def begin_reading(server, stream_id):
    return follow(server, stream_id, stop_after=FEW)


class Ticks:
    """Another stream of the same worker, which needs no store."""

    def __init__(self, server, path):
        self._recordings = []
        self._thread = threading.Thread(
            target=lambda: self._recordings.append(record(Request(server.url + path, timeout=30))), daemon=True
        )
        self._thread.start()

    def longest_gap(self):
        self._thread.join(30)
        (recording,) = self._recordings
        assert recording.status == 200 and recording.framing_complete
        times = [event.at for event in recording.events]
        return max(later - sooner for sooner, later in zip(times, times[1:]))
