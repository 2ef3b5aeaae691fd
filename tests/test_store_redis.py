"""What only the Redis store can meet: a server that is killed, stopped, full, read-only, or drops keys by itself.

What it has in common with the other stores is in the tests of the contract.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import closing
from typing import Any, Callable, Iterator

import pytest
from redis_server import RedisServer, free_port

from flaskstream.errors import InvalidSetting, StoreUnavailable
from flaskstream.stores import open_store
from flaskstream.stores.protocol import DONE, EVICTED, RUNNING, Batch, NewStream, Record, Retention, Store

redis = pytest.importorskip("redis", reason="the package redis is not installed")

PATIENCE = 20.0  # seconds that no test needs, unless it fails
TIMEOUT = 0.3
PASSWORD = "s3cret-of-redis"
LEASE = 60.0
PROGRAMS = pathlib.Path(__file__).with_name("redis_programs.py")


@pytest.fixture(scope="module")
def own_server() -> Iterator[RedisServer]:
    """A Redis that a test may stop and fill; each leaves it running and empty."""
    with closing(RedisServer()) as server:
        yield server


@pytest.fixture
def own(own_server: RedisServer) -> Iterator[RedisServer]:
    yield own_server
    own_server.ask("FLUSHALL")


@pytest.fixture
def store(own: RedisServer) -> Iterator[Store]:
    with closing(open_store(f"{own.url}?socket_timeout={TIMEOUT}&timeout={TIMEOUT}")) as opened:
        yield opened


def begin(store: Store, stream_id: str = "s", key: str | None = None) -> None:
    store.begin(NewStream(stream_id, f"epoch-of-{stream_id}", key=key), LEASE)


def append(store: Store, first: int, *blocks: bytes, stream_id: str = "s", state: str = RUNNING) -> list[str]:
    records = tuple(Record(number, block) for number, block in enumerate(blocks, first))
    return list(store.append([Batch(stream_id, f"epoch-of-{stream_id}", records, state)], LEASE))


def blocks(store: Store, stream_id: str = "s") -> list[bytes]:
    page = store.read(stream_id, 0, 100_000)
    assert page is not None
    assert [record.number for record in page.records] == list(range(1, len(page.records) + 1))
    return [record.block for record in page.records]


def wait_until(happened: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


# -- what is in Redis --


def test_each_record_is_an_entry_of_a_redis_stream_under_its_number(store: Store, own: RedisServer) -> None:
    begin(store)
    append(store, 1, b"one", b"two\r\n\x00")
    assert own.ask("XRANGE", "flaskstream:{s}:records", "-", "+") == [
        (b"1-0", {b"b": b"one"}),
        (b"2-0", {b"b": b"two\r\n\x00"}),
    ]


def test_streams_of_two_prefixes_do_not_meet(store: Store, own: RedisServer) -> None:
    begin(store)
    with closing(open_store(f"{own.url}?prefix={{other}}%3A")) as other:
        assert other.read("s", 0, 1) is None
        begin(other)
    assert {key.partition(b":")[0] for key in own.ask("KEYS", "*")} == {b"flaskstream", b"{other}"}


def test_no_key_is_kept_for_ever(store: Store, own: RedisServer) -> None:
    begin(store, "a", key="k")
    append(store, 1, b"one", stream_id="a")
    store.stop("a")
    begin(store, "b")
    append(store, 1, b"one", stream_id="b", state=DONE)
    begin(store, "c")
    append(store, 1, b"one", stream_id="c", state=DONE)
    store.evict(Retention(streams=2))
    keys = own.ask("KEYS", "*")
    assert len(keys) > 10
    assert {key: own.ask("PTTL", key) for key in keys if own.ask("PTTL", key) < 0} == {}


def test_a_stream_that_goes_on_is_kept_for_longer(store: Store, own: RedisServer) -> None:
    begin(store, key="k")
    append(store, 1, b"one")
    store.stop("s")
    keys = own.ask("KEYS", "*")
    for key in keys:
        own.ask("EXPIRE", key, 3600)
    append(store, 2, b"two")
    assert {key: own.ask("TTL", key) for key in keys if own.ask("TTL", key) <= 3600} == {}


def test_what_has_to_be_kept_for_longer_than_a_day_is(store: Store, own: RedisServer) -> None:
    store.evict(Retention(seconds=3 * 86400))
    begin(store)
    append(store, 1, b"one", state=DONE)
    assert own.ask("TTL", "flaskstream:{s}:records") > 3 * 86400


def test_streams_that_grow_together_cost_one_round_trip(store: Store, own: RedisServer) -> None:
    for number in range(10):
        begin(store, f"s{number}")
    calls_before = calls_of_scripts(own)
    batches = [Batch(f"s{number}", f"epoch-of-s{number}", (Record(1, b"one"),)) for number in range(10)]
    assert store.append(batches, LEASE) == []
    assert calls_of_scripts(own) == calls_before + 1


def calls_of_scripts(server: RedisServer) -> int:
    return int(server.ask("INFO", "commandstats")["cmdstat_evalsha"]["calls"])


def test_a_page_of_many_records_comes_in_parts_and_whole(store: Store) -> None:
    begin(store)
    sent = [b"%d" % number * 300 for number in range(5000)]
    append(store, 1, *sent)
    assert blocks(store) == sent


# -- gone --


def test_while_redis_is_gone_each_call_says_so_and_then_what_it_lost_is_not_there(
    store: Store, own: RedisServer
) -> None:
    begin(store, key="k")
    append(store, 1, b"one")
    own.kill()
    try:
        for call in calls(store):
            with pytest.raises(StoreUnavailable):
                call()
    finally:
        own.start()
    assert store.read("s", 0, 10) is None
    assert store.find("epoch-of-s") is None
    assert append(store, 2, b"two") == ["s"]  # no stream that begins with its second record
    assert store.begin(NewStream("t", "epoch-of-t", key="k"), LEASE)[1]


def calls(store: Store) -> list[Callable[[], Any]]:
    return [
        lambda: begin(store, "other"),
        lambda: append(store, 2, b"two"),
        lambda: store.read("s", 0, 10),
        lambda: store.find("epoch-of-s"),
        lambda: store.lose("s", "epoch-of-s", b"lost"),
        lambda: store.stop("s"),
        lambda: store.stopping(),
        lambda: store.touch(["s"]),
        lambda: store.forget("s", "epoch-of-s"),
        lambda: store.evict(Retention()),
        lambda: store.kept(),
    ]


def test_with_persistence_a_stream_survives_the_restart_of_redis() -> None:
    keeping = RedisServer(appendonly="yes", appendfsync="always")
    with closing(keeping) as server, closing(open_store(server.url)) as store:
        begin(store)
        append(store, 1, b"one")
        server.restart()
        assert append(store, 2, b"two") == []
        assert blocks(store) == [b"one", b"two"]


def test_who_watches_is_told_after_redis_came_back(store: Store, own: RedisServer) -> None:
    told: list[float] = []
    end = store.watch("s", lambda: told.append(time.monotonic()))
    wait_until(lambda: told)  # it is subscribed
    own.kill()
    told.clear()
    own.start()
    wait_until(lambda: told)  # something may have been missed
    told.clear()
    begin(store)
    wait_until(lambda: told)
    end()


def test_one_connection_listens_for_all_who_watch_and_goes_with_the_last(store: Store, own: RedisServer) -> None:
    told: set[int] = set()
    ends = [store.watch(f"s{number}", lambda number=number: told.add(number)) for number in range(50)]  # type: ignore[misc]
    wait_until(lambda: len(told) == 50)
    assert len(listeners(own)) == 1
    ends[0]()
    wait_until(lambda: [client["sub"] for client in listeners(own)] == ["49"])
    for end in ends:
        end()
    wait_until(lambda: not listeners(own))


def listeners(server: RedisServer) -> list[dict[str, str]]:
    return [client for client in server.ask("CLIENT LIST") if int(client["sub"])]


def test_it_can_be_closed_while_somebody_watches_and_used_again(store: Store, own: RedisServer) -> None:
    told: list[int] = []
    store.watch("s", lambda: told.append(1))
    wait_until(lambda: told)
    store.close()
    store.close()
    wait_until(lambda: not listeners(own))
    begin(store)
    assert blocks(store) == []


def test_an_answer_that_is_on_its_way_comes_though_the_store_is_closed(store: Store) -> None:
    begin(store)
    append(store, 1, *[b"x" * 500] * 500)
    failed: list[Exception] = []
    has_ended = threading.Event()

    def ask() -> None:
        while not has_ended.is_set():
            try:
                store.read("s", 0, 500)
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        time.sleep(0.01)
        store.close()
    has_ended.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert failed == []


def test_over_tls_it_is_the_same(own: RedisServer, certificate: str) -> None:
    port = free_port()
    files = [text for name in ("cert", "key", "ca-cert") for text in (f"tls-{name}-file", certificate)]
    try:
        own.ask("CONFIG", "SET", "tls-auth-clients", "no", *files, "tls-port", port)
    except redis.ResponseError as error:
        pytest.skip(f"this Redis has no TLS: {error}")
    told: list[float] = []
    with closing(open_store(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificate}")) as store:
        end = store.watch("s", lambda: told.append(time.monotonic()))
        wait_until(lambda: told)
        begin(store)
        for number in range(1, 21):
            told.clear()
            append(store, number, b"x" * 1000)
            wait_until(lambda: told)
        assert blocks(store) == [b"x" * 1000] * 20
        end()
        wait_until(lambda: not listeners(own))


def test_over_a_unix_socket_it_is_the_same(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "redis.sock"
    server = RedisServer(unixsocket=str(path))
    with closing(server), closing(open_store(f"unix://{path}?db=1&prefix=x:")) as store:
        begin(store)
        append(store, 1, b"one")
        assert blocks(store) == [b"one"]
        assert server.ask("DBSIZE") == 0


def test_a_script_that_redis_has_forgotten_is_sent_again(store: Store, own: RedisServer) -> None:
    begin(store)
    own.ask("SCRIPT", "FLUSH")
    assert append(store, 1, b"one") == []
    assert blocks(store) == [b"one"]


# -- slow --


def test_a_redis_that_is_stopped_holds_each_call_up_for_its_timeout_only(store: Store, own: RedisServer) -> None:
    begin(store)
    own.pause()
    try:
        started = time.monotonic()
        for call in calls(store):
            with pytest.raises(StoreUnavailable):
                call()
        # A connection that is made anew waits for the greeting and is refused: one timeout for each call, at most two.
        assert TIMEOUT <= time.monotonic() - started < 2 * len(calls(store)) * TIMEOUT + PATIENCE / 4
    finally:
        own.go_on()
    assert append(store, 1, b"one") == []


def test_a_redis_that_says_nothing_is_left_and_who_watches_is_told_when_it_goes_on(
    store: Store, own: RedisServer
) -> None:
    told: list[float] = []
    end = store.watch("s", lambda: told.append(time.monotonic()))
    wait_until(lambda: told)
    before = listeners(own)
    own.pause()
    other = store.watch("other", lambda: None)  # what is said to Redis finds that it does not answer
    time.sleep(3 * TIMEOUT)
    told.clear()
    own.go_on()
    begin(store)
    wait_until(lambda: told)
    wait_until(lambda: [client["id"] for client in listeners(own)] != [client["id"] for client in before])
    other()
    end()


def test_greenlets_go_on_while_redis_is_stopped(own: RedisServer) -> None:
    with program("slow", own.url) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        own.pause()
        try:
            process.stdin.write("\n")
            process.stdin.flush()
            came = json.loads(process.stdout.readline())
        finally:
            own.go_on()
    assert came["came"] == "unavailable"
    assert 1.9 < came["seconds"] < PATIENCE  # two seconds, where the URL says nothing else
    assert came["ticks"] > 20  # of the fifty that there are in a second


def test_a_thousand_readers_share_few_connections(own: RedisServer) -> None:
    before = own.ask("INFO", "stats")["total_connections_received"]
    with program("crowd", f"{own.url}?max_connections=4&timeout={PATIENCE}") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"good": 1000, "told": 1000}
    assert own.ask("INFO", "stats")["total_connections_received"] - before < 10


def test_readers_that_are_killed_take_no_connection_with_them(own: RedisServer) -> None:
    with program("killed", f"{own.url}?max_connections=2") as process:
        assert process.stdout is not None
        came = json.loads(process.stdout.readline())
    assert came.pop("whole") >= 160  # as many were left alone
    assert came == {}


@pytest.mark.parametrize("kind", ["threads", "greenlets"])
def test_a_store_goes_through_a_fork(own: RedisServer, kind: str) -> None:
    with program(f"fork-{kind}", own.url) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"child": [1, ["child"]], "parent": [2, ["parent"]]}


def program(name: str, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS), name, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        universal_newlines=True,
        env={**os.environ, "PYTHONPATH": str(PROGRAMS.parent.parent)},
    )


# -- refusing --


def test_no_error_shows_the_password() -> None:
    with closing(RedisServer(requirepass=PASSWORD)) as server:
        with closing(open_store(server.url.replace("//", f"//:{PASSWORD}@"))) as store:
            begin(store)
        store = open_store(server.url.replace("//", f"//someone:{PASSWORD}-not@"))
        with closing(store), pytest.raises(StoreUnavailable) as caught:
            begin(store)
    shown = "".join(traceback.format_exception(caught.type, caught.value, caught.tb)) + repr(store) + repr(vars(store))
    assert "Auth" in str(caught.value) or "WRONGPASS" in str(caught.value)
    assert PASSWORD not in shown


def test_a_server_that_quotes_what_it_refuses_does_not_show_the_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection:
                asked = connection.recv(1000)
                connection.sendall(b"-ERR unknown command 'AUTH', with args beginning with: %r\r\n" % asked)

        thread = threading.Thread(target=refuse)
        thread.start()
        store = open_store(f"redis://:{PASSWORD}@127.0.0.1:{listener.getsockname()[1]}/0")
        with closing(store), pytest.raises(StoreUnavailable, match="AUTH") as caught:
            begin(store)
        thread.join(PATIENCE)
    assert PASSWORD not in "".join(traceback.format_exception(caught.type, caught.value, caught.tb))


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{PASSWORD}@127.0.0.1:no-port/0",
        f"redis://:{PASSWORD}/x@127.0.0.1/0",
        f"redis://127.0.0.1/0?password={PASSWORD}&socket_timeout=soon",
        f"redis://127.0.0.1/0?password={PASSWORD}&no_such_option=1",
        f"Redis://:{PASSWORD}@127.0.0.1/0",
    ],
)
def test_a_url_that_is_not_understood_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        open_store(url)
    assert PASSWORD not in "".join(traceback.format_exception(caught.type, caught.value, caught.tb)).replace(url, "")


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(InvalidSetting, match=r"pip install flaskstream\[redis\]"):
        open_store("redis://127.0.0.1/0")


def test_a_full_redis_refuses_records_and_lets_one_read_stop_and_evict(store: Store, own: RedisServer) -> None:
    begin(store, "old")
    append(store, 1, *[b"x" * 100_000] * 20, stream_id="old", state=DONE)
    begin(store)
    append(store, 1, b"one")
    used = own.ask("INFO", "memory")["used_memory"]
    own.ask("CONFIG", "SET", "maxmemory", used - 500_000, "maxmemory-policy", "noeviction")
    try:
        with pytest.raises(StoreUnavailable, match=r"OutOfMemory|OOM"):
            append(store, 2, b"two")
        assert blocks(store) == [b"one"]
        store.stop("s")
        assert store.stopping() == ["s"]
        assert store.evict(Retention(bytes=1_000_000)) == 1
        wait_until(lambda: own.ask("INFO", "memory")["used_memory"] < used - 600_000)  # it frees in the background
        assert append(store, 2, b"two") == []
        assert blocks(store) == [b"one", b"two"]
    finally:
        own.ask("CONFIG", "SET", "maxmemory", "0")


def test_a_replica_can_be_read_and_not_written(store: Store, own: RedisServer) -> None:
    begin(store)
    append(store, 1, b"one")
    own.ask("REPLICAOF", "127.0.0.1", "1")
    try:
        with pytest.raises(StoreUnavailable):
            append(store, 2, b"two")
        assert blocks(store) == [b"one"]
    finally:
        own.ask("REPLICAOF", "NO", "ONE")


# -- dropping keys by itself --


def test_a_stream_whose_records_were_dropped_reads_as_evicted_and_takes_no_more(store: Store, own: RedisServer) -> None:
    begin(store)
    append(store, 1, b"one")
    own.ask("DEL", "flaskstream:{s}:records")
    assert append(store, 2, b"two") == ["s"]
    page = store.read("s", 0, 10)
    assert page is not None and page.info.state == EVICTED and not page.records
    assert (store.kept().streams, store.kept().bytes) == (0, 0)


def test_figures_that_were_dropped_are_counted_again(store: Store, own: RedisServer) -> None:
    begin(store)
    append(store, 1, b"one", b"two")
    kept = store.kept()
    own.ask("DEL", "flaskstream:counts")
    append(store, 3, b"three")
    assert (store.kept().records, store.kept().bytes) == (kept.records + 1, kept.bytes + 5)


def test_a_redis_that_drops_what_was_not_used_lately_never_leaves_a_gap(store: Store, own: RedisServer) -> None:
    used = own.ask("INFO", "memory")["used_memory"]
    own.ask("CONFIG", "SET", "maxmemory", used + 500_000, "maxmemory-policy", "allkeys-lru")
    refused = 0
    try:
        for number in range(60):
            stream_id = f"s{number}"
            begin(store, stream_id)
            for first in (1, 11):
                refused += len(append(store, first, *[b"x" * 2000] * 10, stream_id=stream_id))
        pages = [store.read(f"s{number}", 0, 100) for number in range(60)]
    finally:
        own.ask("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
    there = [page for page in pages if page is not None and page.info.state != EVICTED]
    assert 0 < len(there) < 60
    assert all([record.number for record in page.records] == list(range(1, page.info.last + 1)) for page in there)
    assert refused <= 60 - len(there)
