"""`/stats`: what the streams of all workers did, whoever answers, whatever became of a worker, in two formats."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from typing import Any, Iterator, Sequence
from urllib.parse import urlsplit

import pytest
from answer_vectors import DONE, A, said
from conftest import IDLE_SECONDS, TESTS
from flask import Flask
from in_process import waitress, werkzeug
from marked import wait_until
from raw_upstream import FINAL_CHUNK, PATIENCE, Pause, RawUpstream, answer, chunk, head
from relay_client import chat, end, post

from flaskstream import create_blueprint
from flaskstream.doctor.measure import Request, open_exchange, record
from flaskstream.errors import FlaskStreamError, InvalidSetting
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.stats import figures, layout, slots
from flaskstream.stats.layout import BOUNDS_MS, COUNTERS, FIRST_TOKEN, GAP, HISTOGRAMS, OPEN, WORDS
from flaskstream.testing import open_stream
from flaskstream.upstream import Upstream

OURS = "python:flaskstream.gunicorn_conf"
PLAIN = "apps/gunicorn_plain.py"
OK = answer("chunked", A, DONE)
GRACE = 4


# Where each number stands.


def test_no_two_numbers_share_a_word() -> None:
    words = [OPEN, *COUNTERS.values()]
    for histogram in HISTOGRAMS:
        words += range(histogram.start, histogram.end)
    assert sorted(words) == list(range(WORDS))


def test_every_code_of_the_error_tree_can_end_a_stream() -> None:
    def codes(root: type[FlaskStreamError]) -> set[str]:
        return {root.code}.union(*map(codes, root.__subclasses__()))

    assert set(layout.ENDS) == {"done", "client_gone", "stopped", "restart", "reset"} | codes(FlaskStreamError)


@pytest.mark.parametrize("bound", [0, 1, 40, 84])
def test_a_bucket_holds_what_is_no_more_than_its_bound(bound: int) -> None:
    word, value = GAP.start + 1 + bound, BOUNDS_MS[bound]
    assert sorted(GAP.buckets([value, value + 0.0001, value])) == [(word, 2), (word + 1, 1)]


def test_what_is_above_all_bounds_has_a_bucket_that_is_still_the_histogram_s() -> None:
    assert GAP.buckets([1e12]) == [(GAP.end - 1, 1)]
    assert FIRST_TOKEN.buckets([-1]) == [(FIRST_TOKEN.start + 1, 1)]
    assert BOUNDS_MS[-1] > 8 * 60_000


# The figures, of rows.


def row(**numbers: int) -> list[int]:
    words = [0] * WORDS
    for name, number in numbers.items():
        words[OPEN if name == "open" else COUNTERS[name.replace("__", ":")]] = number
    return words


def observed(histogram: layout.Histogram, *milliseconds: float) -> list[int]:
    words = [0] * WORDS
    for value in milliseconds:
        words[histogram.start] += int(value * 1000)
    for word, count in histogram.buckets(milliseconds):
        words[word] += count
    return words


def test_rows_are_summed() -> None:
    told = figures.as_json(
        [row(open=2, tokens=3, ended__done=1), row(tokens=4, ended__done=5, refused__forbidden=1)], 7
    )
    assert (told["processes"], told["open"], told["tokens"], told["events"]) == (7, 2, 7, 0)
    assert (told["ended"], told["refused"]) == ({"done": 6}, {"forbidden": 1})


def test_waits_are_told_in_milliseconds_here_and_in_seconds_there() -> None:
    rows = [row(source_wait_us=1_500_000, client_wait_us=250_000)]
    assert figures.as_json(rows, 1)["waited_ms"] == {"source": 1500.0, "client": 250.0}
    text = figures.as_prometheus(rows, 1)
    assert "flaskstream_source_wait_seconds_total 1.5\n" in text
    assert "flaskstream_client_wait_seconds_total 0.25\n" in text


def test_a_percentile_is_known_to_within_a_fifth() -> None:
    values = [1.0 * 1.05**n for n in range(200)]  # from 1 ms to 16 s
    told = figures.as_json([observed(GAP, *values[:70]), observed(GAP, *values[70:])], 2)["gap_ms"]
    assert told["count"] == 200
    assert told["mean"] == pytest.approx(statistics.mean(values), rel=0.01)
    for percent in (50, 90, 99):
        exact = values[percent * 2 - 1]
        assert exact <= told[f"p{percent}"] <= exact * 1.2


def test_of_nothing_there_is_no_percentile_nor_of_what_is_above_all_bounds() -> None:
    nothing = {"count": 0, "mean": None, "p50": None, "p90": None, "p99": None}
    told = figures.as_json([], 0)
    assert told["gap_ms"] == told["first_token_ms"] == nothing
    assert figures.as_json([observed(GAP, 1.0, 1e9, 1e9)], 1)["gap_ms"]["p90"] is None


def parsed(text: str) -> dict[str, Any]:
    """What Prometheus's own parser reads: the samples by their names and labels."""
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    families = list(parser.text_string_to_metric_families(text))
    assert all(family.documentation and family.type != "unknown" for family in families)
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, *sample.labels.values()): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def buckets(samples: dict[Any, float], name: str) -> list[tuple[float, float]]:
    return [(float(key[1]), value) for key, value in samples.items() if key[0] == f"{name}_bucket"]


def test_prometheus_reads_it() -> None:
    rows = [row(open=2, bytes=1 << 60, ended__done=3, refused__bad_request=1), observed(GAP, 1, 10, 100, 1e9)]
    samples = parsed(figures.as_prometheus(rows, 2))
    assert samples["flaskstream_open_streams",] == 2
    assert samples["flaskstream_processes",] == 2
    assert samples["flaskstream_bytes_total",] == 1 << 60
    assert samples["flaskstream_ended_total", "done"] == 3
    assert samples["flaskstream_refused_total", "bad_request"] == 1


def test_the_buckets_are_cumulative_and_end_with_everything() -> None:
    values = (0.1, 1, 10, 100, 1000, 1e9)
    samples = parsed(figures.as_prometheus([observed(GAP, *values)], 1))
    found = buckets(samples, "flaskstream_gap_seconds")
    bounds, counts = [bound for bound, _ in found], [count for _, count in found]
    assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf")
    assert counts == sorted(counts) and counts[-1] == len(values)
    assert all(count == sum(value <= bound * 1000 for value in values) for bound, count in found)
    assert samples["flaskstream_gap_seconds_count",] == len(values)
    assert samples["flaskstream_gap_seconds_sum",] == pytest.approx(sum(values) / 1000)


# The memory of all processes.

FAMILY = """
import json, os, signal, sys
from flaskstream.stats import STATS, slots
from flaskstream.stats.figures import as_json

slots.MAX_PROCESSES = int(sys.argv[1])
STATS.share()
if "first" in sys.argv:
    STATS.count("tokens", 1000)

def child():
    "Count, say so, and stay."
    ready, stay = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        os.close(stay[1])
        STATS.opened()
        STATS.count("tokens", 10)
        own = as_json(*STATS.rows())
        os.write(ready[1], json.dumps([own["tokens"], own["open"]]).encode())
        os.read(stay[0], 1)
        os._exit(0)
    os.close(ready[1]), os.close(stay[0])
    return pid, stay[1], json.loads(os.read(ready[0], 100))

def told():
    figures = as_json(*STATS.rows())
    return [figures["processes"], figures["open"], figures["tokens"]]

said = []
children = [child() for _ in range(3)]
said.append([seen for _, _, seen in children])
said.append(told())
os.kill(children[0][0], signal.SIGKILL)
os.waitpid(children[0][0], 0)
said.append(told())
children[0] = child()
said.append(told())
for pid, stay, _ in children:
    os.write(stay, b"x")
    os.waitpid(pid, 0)
said.append(told())
print(json.dumps(said))
"""


def family(*arguments: str) -> Any:
    ran = subprocess.run([sys.executable, "-c", FAMILY, *arguments], stdout=subprocess.PIPE, check=True, timeout=60)
    return json.loads(ran.stdout)


@pytest.mark.parametrize("first", [(), ("first",)], ids=["children only", "the parent too"])
def test_every_process_sees_the_sum_and_a_dead_one_takes_only_its_open_streams_along(first: Sequence[str]) -> None:
    base = 1000 if first else 0
    seen, three, after_kill, after_new, after_all = family("256", *first)
    assert seen == [[base + 10, 1], [base + 20, 2], [base + 30, 3]]
    assert three == [4, 3, base + 30]
    assert after_kill == [3, 2, base + 30]
    assert after_new == [4, 3, base + 40]
    assert after_all == [1, 0, base + 40]


def test_one_process_too_many_counts_for_itself_and_harms_nobody() -> None:
    seen, three, *_, after_all = family("3", "first")
    assert seen == [[1010, 1], [1020, 2], [1030, 3]]  # the last of them has no row, and sees itself beside the others
    assert three == [3, 2, 1020]
    assert after_all == [1, 0, 1030]  # the one in place of the dead one found a row


def test_who_has_no_memfd_leaves_no_file_either(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared = slots.Slots()
    shared.claim()[COUNTERS["tokens"]] += 5
    assert [words[COUNTERS["tokens"]] for words in shared.rows()] == [5]
    assert list(tmp_path.iterdir()) == []


RACE = """
import os
from flaskstream.stats import STATS
STATS.share()
def child():
    pid = os.fork()
    if not pid:
        for _ in range(150):
            if STATS.rows()[1] > 5:
                os._exit(1)
        os._exit(0)
    return pid
STATS.opened()
assert [os.waitpid(pid, 0)[1] for pid in [child() for _ in range(4)]] == [0] * 4
"""


def test_processes_that_ask_at_once_do_not_take_each_other_for_more_of_them() -> None:
    subprocess.run([sys.executable, "-c", RACE], check=True, timeout=60)


FIRST_STEPS = """
import threading
from flaskstream.stats import Stats
from flaskstream.stats.figures import as_json
for _ in range(100):
    stats, start = Stats(), threading.Barrier(4)
    def count():
        start.wait()
        stats.count("tokens")
    threads = [threading.Thread(target=count) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert as_json(*stats.rows())["tokens"] == 4
"""


def test_threads_that_count_for_the_first_time_at_once_count_in_one_place() -> None:
    subprocess.run([sys.executable, "-c", FIRST_STEPS], check=True, timeout=60)


GREENLETS = """
from gevent import monkey
monkey.patch_all()
from flaskstream.stats import STATS
from flaskstream.stats.figures import as_json
import gevent
pool = gevent.get_hub().threadpool
def count():
    for _ in range(5000):
        STATS.count("tokens")
threads = [pool.spawn(count) for _ in range(4)]
count()
gevent.wait(threads)
print(as_json(*STATS.rows())["tokens"])
"""


def test_threads_and_greenlets_count_together() -> None:
    ran = subprocess.run([sys.executable, "-c", GREENLETS], stdout=subprocess.PIPE, check=True, timeout=60)
    assert int(ran.stdout) == 25_000


# Through servers.


def stats(server: Any, path: str = "/plain/stats") -> Any:
    with open_stream(server.url + path) as stream:
        assert stream.headers["Cache-Control"] == "no-store"
        return stream.json()


@contextlib.contextmanager
def running(upstream: RawUpstream, *arguments: str, config: str = OURS) -> Iterator[GunicornProcess]:
    settings = {"upstream": upstream.url, "idle_timeout": str(IDLE_SECONDS)}
    arguments = ("--graceful-timeout", str(GRACE), *arguments)
    with GunicornProcess(settings, arguments, "apps.relays:create_app()", config, TESTS) as process:
        process.wait_until_it_answers()
        yield process
        process.kill()


@pytest.fixture(scope="module")
def pair(raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    with running(raw_upstream, "--workers", "2") as process:
        wait_until(lambda: len(workers(process)) == 2)
        wait_until_all_answer(process)
        yield process


def workers(server: GunicornProcess) -> set[int]:
    with open(f"/proc/{server.pid}/task/{server.pid}/children") as children:
        return set(map(int, children.read().split()))


@contextlib.contextmanager
def connected(server: GunicornProcess, pid: int) -> Iterator[http.client.HTTPConnection]:
    """A connection to this worker, which is kept."""
    where = urlsplit(server.url)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.closing(http.client.HTTPConnection(str(where.hostname), where.port, timeout=PATIENCE)) as found:
            if int(got(found, "/pid")) == pid:
                yield found
                return
    raise AssertionError(f"worker {pid} never answered")


def got(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    with connection.getresponse() as response:
        return response.read()


def wait_until_all_answer(server: GunicornProcess) -> None:
    for pid in workers(server):
        with connected(server, pid):
            pass


def seen_by_each(server: GunicornProcess) -> list[Any]:
    seen = []
    wait_until_all_answer(server)
    for pid in sorted(workers(server)):
        with connected(server, pid) as connection:
            seen.append(json.loads(got(connection, "/plain/stats")))
    return seen


def test_the_sum_is_the_same_whichever_worker_counts_and_whichever_answers(
    pair: GunicornProcess, raw_upstream: RawUpstream
) -> None:
    wait_until(lambda: stats(pair)["open"] == 0)
    before = stats(pair)
    model = raw_upstream.plays(OK)
    for place, pid in enumerate(sorted(workers(pair))):
        for _ in range(place + 1):
            with connected(pair, pid) as connection:
                assert b"event: done" in got(connection, f"/plain/chat?q=hello&model={model}")
    wait_until(lambda: stats(pair)["open"] == 0)
    for after in seen_by_each(pair):
        assert after["processes"] == 2
        assert after["ended"]["done"] - before["ended"].get("done", 0) == 3
        assert after["tokens"] - before["tokens"] == after["events"] - before["events"] == 3
        assert after["bytes"] - before["bytes"] >= 3 * len(b'data: {"t":"a"}\n\n')
        assert after["first_token_ms"]["count"] - before["first_token_ms"]["count"] == 3


def endless(upstream: RawUpstream) -> str:
    return upstream.plays(head("chunked"), *[chunk(said("a")), Pause(0.1)] * 300, end="hold")


@contextlib.contextmanager
def open_streams(server: Any, model: str, count: int, path: str = "/plain/chat") -> Iterator[list[Any]]:
    with contextlib.ExitStack() as stack:
        asked = post(server, path, {"q": "hello", "model": model})
        exchanges = [stack.enter_context(open_exchange(asked)) for _ in range(count)]
        for exchange in exchanges:
            next(exchange.events())
        yield exchanges


def test_open_streams_are_a_gauge_that_goes_down_when_their_clients_go(
    pair: GunicornProcess, raw_upstream: RawUpstream
) -> None:
    wait_until(lambda: stats(pair)["open"] == 0)
    gone = stats(pair)["ended"].get("client_gone", 0)
    with open_streams(pair, endless(raw_upstream), 6):
        assert [seen["open"] for seen in seen_by_each(pair)] == [6, 6]
    wait_until(lambda: stats(pair)["open"] == 0)
    assert stats(pair)["ended"]["client_gone"] == gone + 6


def numbers(told: Any) -> dict[str, int]:
    """Every number that may only grow."""
    plain = {name: told[name] for name in ("events", "tokens", "bytes", "heartbeats", "upstream_retries")}
    ended = {f"ended {name}": number for name, number in told["ended"].items()}
    return {**plain, **ended, "gaps": told["gap_ms"]["count"], "first": told["first_token_ms"]["count"]}


def test_a_killed_worker_takes_its_open_streams_along_and_no_counter(
    pair: GunicornProcess, raw_upstream: RawUpstream
) -> None:
    victim, other = workers(pair)
    model = raw_upstream.plays(OK)
    with connected(pair, victim) as connection:
        assert b"event: done" in got(connection, f"/plain/chat?q=hello&model={model}")
        connection.request("GET", f"/plain/chat?q=hello&model={endless(raw_upstream)}")
        with connection.getresponse() as response:
            assert response.read(1)
            wait_until(lambda: stats(pair)["open"] == 1)
            before = numbers(stats(pair))
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: victim not in workers(pair) and len(workers(pair)) == 2)
    assert other in workers(pair)
    for after in seen_by_each(pair):
        assert (after["open"], after["processes"]) == (0, 2)
        assert all(numbers(after)[name] >= number for name, number in before.items())


def test_a_reload_keeps_the_counters_and_counts_the_streams_that_it_ended(
    pair: GunicornProcess, raw_upstream: RawUpstream
) -> None:
    old = workers(pair)
    with open_streams(pair, endless(raw_upstream), 2) as exchanges:
        before = numbers(stats(pair))
        stopped = before.get("ended shutting_down", 0)
        os.kill(pair.pid, signal.SIGHUP)
        assert {list(exchange.events())[-1].event.json()["code"] for exchange in exchanges} == {"shutting_down"}
    wait_until(lambda: len(workers(pair)) == 2 and not workers(pair) & old)
    for after in seen_by_each(pair):
        assert (after["open"], after["processes"]) == (0, 2)
        assert all(numbers(after)[name] >= number for name, number in before.items())
        assert after["ended"]["shutting_down"] == stopped + 2


def test_how_streams_ended_and_why_requests_became_none(pair: GunicornProcess, raw_upstream: RawUpstream) -> None:
    wait_until(lambda: stats(pair)["open"] == 0)
    before = stats(pair)
    chat(pair, raw_upstream.plays(head("chunked"), chunk(A), end="hold"), path="/plain/chat")
    chat(pair, raw_upstream.plays(head("chunked"), chunk(A), end="reset"), path="/plain/chat")
    chat(pair, raw_upstream.plays(answer("length", status=401)), path="/plain/chat")
    chat(pair, "tick", path="/nowhere/chat")
    chat(pair, "tick", path="/for_friends/chat")
    record(post(pair, "/plain/chat", {"question": "of nobody"}))
    record(post(pair, "/small/chat", {"q": "a" * 200_000}))
    after = stats(pair)
    ended = {name: number - before["ended"].get(name, 0) for name, number in after["ended"].items()}
    refused = {name: number - before["refused"].get(name, 0) for name, number in after["refused"].items()}
    assert {name: number for name, number in ended.items() if number} == {
        "idle_timeout": 1,
        "upstream_truncated": 1,
        "upstream_error": 1,
        "upstream_refused": 1,
    }
    assert {name: number for name, number in refused.items() if number} == {
        "forbidden": 1,
        "bad_request": 1,
        "body_too_large": 1,
    }


def test_who_found_no_place_is_counted(relays: Any, raw_upstream: RawUpstream) -> None:
    with open_streams(relays, endless(raw_upstream), 1, "/one_at_most/chat"):
        before = stats(relays)
        assert chat(relays, "tick", path="/one_at_most/chat").status == 503
        after = stats(relays)
    assert after["refused"]["too_many_streams"] == before["refused"].get("too_many_streams", 0) + 1
    assert after["open"] == before["open"]
    wait_until(lambda: stats(relays)["open"] == 0)


def test_heartbeats_are_counted_and_are_no_events(relays: Any, raw_upstream: RawUpstream) -> None:
    before = stats(relays)
    model = raw_upstream.plays(head("chunked"), Pause(0.6), chunk(A), chunk(DONE) + FINAL_CHUNK)
    seen = chat(relays, model, path="/beats/chat")
    after = stats(relays)
    beats = [comment.text for comment in seen.comments].count("hb")
    assert after["heartbeats"] - before["heartbeats"] == beats >= 3
    assert after["events"] - before["events"] == 1


def test_first_tokens_and_gaps_are_what_the_client_sees(raw_upstream: RawUpstream) -> None:
    ticks = [step for _ in range(8) for step in (chunk(said("word")), Pause(0.1))]
    model = raw_upstream.plays(head("chunked"), Pause(0.4), *ticks, chunk(DONE) + FINAL_CHUNK)
    with running(raw_upstream) as server:
        seen = chat(server, model, path="/plain/chat")
        assert end(seen).event == "done"
        told = stats(server)
    at = [timed.at for timed in seen.events]
    gap = statistics.median(later - earlier for earlier, later in zip(at[:-1], at[1:-1])) * 1000
    first = (at[0] - seen.sent_at) * 1000
    assert told["gap_ms"]["count"] == 7 and told["first_token_ms"]["count"] == 1
    assert gap * 0.8 < told["gap_ms"]["p50"] < gap * 1.5
    assert told["gap_ms"]["p50"] <= told["gap_ms"]["p90"] <= told["gap_ms"]["p99"]
    assert first * 0.5 < told["first_token_ms"]["p50"] < first * 1.3
    assert 900 < told["waited_ms"]["source"] < (seen.ended_at - seen.sent_at) * 1000 + 500
    assert told["waited_ms"]["client"] < told["waited_ms"]["source"]


# The route.


def test_the_shape_of_the_json(pair: GunicornProcess) -> None:
    told = stats(pair)
    assert told["schema_version"] == 1
    assert sorted(told) == [
        "bytes",
        "ended",
        "events",
        "first_token_ms",
        "gap_ms",
        "heartbeats",
        "open",
        "processes",
        "produced",
        "refused",
        "resumed",
        "schema_version",
        "store",
        "tokens",
        "unrecorded",
        "upstream_retries",
        "waited_ms",
    ]
    assert sorted(told["gap_ms"]) == sorted(told["first_token_ms"]) == ["count", "mean", "p50", "p90", "p99"]


SCRAPER = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.mark.parametrize(
    ("query", "accept", "is_text"),
    [
        ("", "*/*", False),
        ("", BROWSER, False),
        ("", "application/json", False),
        ("", SCRAPER, True),
        ("?format=prometheus", "*/*", True),
        ("?format=json", SCRAPER, False),
    ],
)
def test_prometheus_gets_its_text_and_everybody_else_json(
    pair: GunicornProcess, query: str, accept: str, is_text: bool
) -> None:
    seen = record(Request(pair.url + "/plain/stats" + query, headers=(("Accept", accept),)))
    assert seen.status == 200
    if is_text:
        assert seen.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
        samples = parsed(seen.body.decode())
        told = stats(pair)
        assert samples["flaskstream_processes",] == 2
        assert samples["flaskstream_tokens_total",] == told["tokens"]
        assert samples["flaskstream_gap_seconds_count",] == told["gap_ms"]["count"]
    else:
        assert json.loads(seen.body)["schema_version"] == 1


@pytest.mark.parametrize(
    ("debug", "status"), [(False, 404), (["model"], 404), ([], 404), (["stats"], 200), (True, 200)]
)
def test_it_is_there_for_who_asked_for_it(upstream: Upstream, debug: Any, status: int) -> None:
    app = Flask(__name__)
    app.register_blueprint(create_blueprint(upstream, debug=debug))
    assert app.test_client().get("/stats").status_code == status


@pytest.mark.parametrize("debug", ["stats", ["status"], ["stats", "all"]])
def test_another_name_is_refused(upstream: Upstream, debug: Any) -> None:
    with pytest.raises(InvalidSetting, match="debug: expected True, False or a list of"):
        create_blueprint(upstream, debug=debug)


def test_who_may_not_ask_may_not_look_either(relays: Any) -> None:
    assert record(Request(relays.url + "/for_friends/stats")).status == 403
    assert record(Request(relays.url + "/for_friends/stats", headers=(("X-Friend", "yes"),))).status == 200


# Other ways of being started.


@pytest.mark.parametrize(
    ("config", "arguments"),
    [(OURS, ["--preload"]), (PLAIN, ["--preload", "-k", "gthread", "--threads", "4"])],
    ids=["our settings", "settings of one's own"],
)
def test_an_app_that_is_loaded_before_the_fork_is_summed_too(
    raw_upstream: RawUpstream, config: str, arguments: Sequence[str]
) -> None:
    model = raw_upstream.plays(OK)
    with running(raw_upstream, "--workers", "2", *arguments, config=config) as server:
        wait_until(lambda: len(workers(server)) == 2)
        for pid in workers(server):
            with connected(server, pid) as connection:
                assert b"event: done" in got(connection, f"/plain/chat?q=hello&model={model}")
        assert [seen["ended"] for seen in seen_by_each(server)] == [{"done": 2}] * 2


def test_no_file_is_left_nor_ever_to_be_seen(
    raw_upstream: RawUpstream, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    shared = set(os.listdir("/dev/shm"))
    with running(raw_upstream) as server:
        chat(server, raw_upstream.plays(OK), path="/plain/chat")
        assert stats(server)["tokens"] == 1
        assert list(tmp_path.iterdir()) == []
        assert not [name for name in set(os.listdir("/dev/shm")) - shared if "flaskstream" in name]


@pytest.mark.parametrize("serving", [waitress, werkzeug])
def test_one_process_of_threads_counts_for_itself(upstream: Upstream, raw_upstream: RawUpstream, serving: Any) -> None:
    app = Flask(__name__)
    app.register_blueprint(create_blueprint(upstream, debug=True))
    model = raw_upstream.plays(OK)

    class At:
        pass

    with serving(app) as url:
        server: Any = At()
        server.url = url
        before = stats(server, "/stats")
        for _ in range(3):
            assert end(chat(server, model, path="/chat")).event == "done"
        after = stats(server, "/stats")
    assert after["processes"] == 1
    assert after["ended"]["done"] - before["ended"].get("done", 0) == 3
    assert after["tokens"] - before["tokens"] == 3
