"""What one stream is told of at its end: with a clock of the test's own, and through real servers."""

from __future__ import annotations

import logging
import random
import re
import time
from dataclasses import asdict
from typing import Any, Iterator

import pytest
from answer_vectors import DONE, A, said
from flask import Flask
from marked import wait_until
from raw_upstream import FINAL_CHUNK, Pause, RawUpstream, answer, chunk, head, wait_for
from relay_client import chat, complete, post
from test_unread_client import ask_and_never_read

from flaskstream import create_blueprint, event_stream
from flaskstream.doctor.measure import open_exchange
from flaskstream.errors import IdleTimeout
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.tally import CLIENT, SOURCE, StreamReport, Tally
from flaskstream.testing import open_stream, serve
from flaskstream.upstream import Upstream

INTERVAL = 0.1


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Played:
    """A stream as its two sides play it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.tally = Tally("abc", self.clock.now, self.clock)

    def wait(self, whom: str, seconds: float) -> Played:
        self.tally.waits_for(whom)
        self.clock.now += seconds
        return self

    def event(self, tokens: int = 1, frame: bytes = b"data: a\n\n") -> Played:
        self.tally.waits_for(CLIENT)
        self.tally.count(frame, tokens)
        return self

    def end(self, reason: str = "done") -> StreamReport:
        self.tally.reason = reason
        return self.tally.end()


# With a clock.


@pytest.mark.parametrize("seed", range(40))
def test_tokens_alone_are_counted_as_all_others_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, short, long, seen = random.Random(seed), Played(), Played(), []
    monkeypatch.setattr(short.tally, "_stats", Seen(seen, "short"))
    monkeypatch.setattr(long.tally, "_stats", Seen(seen, "long"))
    for _ in range(chance.randrange(80)):
        what = chance.choice(["token"] * 12 + ["heard", "several", "client", "heartbeat", "comment"])
        seconds, frame = chance.choice([0.0, 0.01, 0.05, chance.random()]), b"x" * chance.randrange(1, 90)
        for played in (short, long):
            tally = played.tally
            played.clock.now += seconds
            if what == "token" and played is short:
                tally.hears_token(frame)
            elif what == "client":
                tally.waits_for(CLIENT)
                played.clock.now += seconds
                tally.waits_for(SOURCE)
            elif what == "heartbeat":
                tally.count_heartbeat()
            else:
                tally.hears()
                tally.count(frame, {"token": 1, "several": 3}.get(what, 0), 3 if what == "several" else 1)
        assert short.tally.events == long.tally.events
    ours, theirs = asdict(short.end()), asdict(long.end())
    assert ours == {name: pytest.approx(value) if isinstance(value, float) else value for name, value in theirs.items()}
    assert sum_of(seen, "short") == pytest.approx(sum_of(seen, "long"))


class Seen:
    """In place of the figures of all workers: what they are told."""

    def __init__(self, seen: list[Any], name: str) -> None:
        self._seen = seen
        self._name = name

    def told(self, now: Any, before: Any, gaps: Any) -> None:
        differences = [new - old for new, old in zip(now, before)]
        self._seen.append((self._name, *differences, len(gaps), sum(gaps), sum(gap * gap for gap in gaps)))

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def sum_of(seen: list[Any], name: str) -> list[float]:
    return [sum(column) for column in zip(*(row[1:] for row in seen if row[0] == name))]


def test_a_stream_without_an_event_has_no_first_and_no_gap() -> None:
    report = Played().wait(SOURCE, 2).end("client_gone")
    assert (report.stream_id, report.reason, report.code) == ("abc", "client_gone", None)
    assert (report.events, report.tokens, report.bytes) == (0, 0, 0)
    assert report.first_event_ms is report.first_token_ms is report.largest_gap_ms is report.largest_gap_of is None
    assert (report.source_wait_ms, report.client_wait_ms, report.duration_ms) == (2000, 0, 2000)


def test_the_first_event_and_the_first_token_are_told_apart() -> None:
    played = Played().wait(SOURCE, 1).event(tokens=0).wait(SOURCE, 0.5).event(tokens=3, frame=b"12345")
    report = played.end()
    assert (report.first_event_ms, report.first_token_ms) == (1000, 1500)
    assert (report.events, report.tokens, report.bytes) == (2, 3, 5 + len(b"data: a\n\n"))


def test_the_time_before_the_first_event_is_no_gap() -> None:
    report = Played().wait(SOURCE, 60).event().wait(SOURCE, 1).event().end()
    assert (report.largest_gap_ms, report.largest_gap_of) == (1000, SOURCE)


def test_the_largest_gap_is_one_and_not_the_sum() -> None:
    played = Played().event()
    for seconds in (1, 3, 2):
        played.wait(SOURCE, seconds).event()
    report = played.end()
    assert (report.largest_gap_ms, report.source_wait_ms) == (3000, 6000)


@pytest.mark.parametrize(
    ("source", "client", "whose"), [(3, 1, SOURCE), (1, 3, CLIENT), (0, 2, CLIENT), (2, 0, SOURCE)]
)
def test_a_gap_is_of_who_was_waited_for_longer(source: float, client: float, whose: str) -> None:
    report = Played().event().wait(CLIENT, client).wait(SOURCE, source).event().end()
    assert (report.largest_gap_ms, report.largest_gap_of) == ((source + client) * 1000, whose)
    assert (report.source_wait_ms, report.client_wait_ms) == (source * 1000, client * 1000)


def test_many_short_waits_within_one_gap_add_up() -> None:
    played = Played().event()
    for _ in range(10):  # heartbeats
        played.wait(SOURCE, 1).wait(CLIENT, 0.25)
    report = played.event().end()
    assert (report.largest_gap_ms, report.largest_gap_of) == (12_500, SOURCE)


def test_the_silence_before_the_end_is_a_gap_too() -> None:
    report = Played().event().wait(SOURCE, 1).event().wait(SOURCE, 60).end("client_gone")
    assert (report.largest_gap_ms, report.largest_gap_of) == (60_000, SOURCE)


def test_waits_add_up_to_the_whole_time() -> None:
    report = Played().wait(SOURCE, 1).event().wait(CLIENT, 2).wait(SOURCE, 3).event().wait(CLIENT, 4).end()
    assert report.source_wait_ms + report.client_wait_ms == report.duration_ms == 10_000


def test_an_error_has_a_code_and_one_of_the_app_s_own_is_internal() -> None:
    for error, code in ((IdleTimeout("x"), "idle_timeout"), (ValueError("secret"), "internal")):
        played = Played()
        played.tally.fail(error)
        report = played.tally.end()
        assert (report.reason, report.code) == ("error", code)
        assert "secret" not in str(report)


def test_it_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flaskstream")
    Played().wait(SOURCE, 0.1234).event().wait(SOURCE, 1.5).event().wait(CLIENT, 0.5).end()
    Played().end("client_gone")
    assert [record.getMessage() for record in caplog.records] == [
        "stream id=abc end=done events=2 tokens=2 bytes=18 first_token_ms=123 largest_gap_ms=1500 gap_of=source"
        " client_wait_ms=500 duration_ms=2123",
        "stream id=abc end=client_gone events=0 tokens=0 bytes=0 first_token_ms=- largest_gap_ms=- gap_of=-"
        " client_wait_ms=0 duration_ms=0",
    ]


# Through a server.


@pytest.fixture
def reports() -> list[StreamReport]:
    return []


@pytest.fixture
def server(upstream: Upstream, reports: list[StreamReport]) -> Iterator[Any]:
    app = Flask(__name__)
    app.register_blueprint(create_blueprint(upstream, debug=True, on_end=reports.append, heartbeat=0.2))
    with serve(app) as running:
        yield running


def the_one(reports: list[StreamReport]) -> StreamReport:
    wait_for(lambda: reports)
    (report,) = reports
    return report


def ticks(upstream: RawUpstream, count: int = 5, *last: Any, end: str = "keep") -> str:
    steps = [step for _ in range(count) for step in (chunk(said("word")), Pause(INTERVAL))]
    return upstream.plays(head("chunked"), *steps, *(last or (chunk(DONE) + FINAL_CHUNK,)), end=end)


@pytest.mark.parametrize(("ask", "path"), [(chat, "/chat"), (complete, "/v1/chat/completions")])
def test_a_whole_answer(
    server: Any, raw_upstream: RawUpstream, reports: list[StreamReport], ask: Any, path: str
) -> None:
    seen = ask(server, ticks(raw_upstream), path=path)
    report = the_one(reports)
    assert (report.reason, report.code, report.tokens) == ("done", None, 5)
    assert report.events == (5 if path == "/chat" else 6)  # there the upstream's own end is one of them
    assert 0 < report.bytes <= len(seen.body)
    took = (seen.ended_at - seen.sent_at) * 1000
    assert 4 * INTERVAL * 1000 < report.duration_ms < took + 5 * INTERVAL * 1000
    assert report.first_token_ms is not None and 0 < report.first_token_ms < report.duration_ms
    assert report.largest_gap_of == SOURCE
    at = [timed.at for timed in seen.events]
    largest = max(later - earlier for earlier, later in zip(at, at[1:])) * 1000
    assert report.largest_gap_ms is not None
    assert INTERVAL * 1000 * 0.8 < report.largest_gap_ms < largest + INTERVAL * 1000
    assert report.source_wait_ms > 4 * INTERVAL * 1000 * 0.9
    assert report.client_wait_ms < report.source_wait_ms


def test_an_answer_that_is_cut(server: Any, raw_upstream: RawUpstream, reports: list[StreamReport]) -> None:
    seen = chat(server, ticks(raw_upstream, 2, chunk(b": cut\n\n"), end="reset"), path="/chat")
    report = the_one(reports)
    assert (report.reason, report.code, report.events) == ("error", "upstream_truncated", 2)
    assert report.stream_id == seen.events[-1].event.json()["id"]


def test_a_silent_upstream(server: Any, raw_upstream: RawUpstream, reports: list[StreamReport]) -> None:
    chat(server, raw_upstream.plays(head("chunked"), chunk(A), end="hold"), path="/chat")
    report = the_one(reports)
    assert (report.reason, report.code, report.events, report.largest_gap_of) == ("error", "idle_timeout", 1, SOURCE)
    assert report.largest_gap_ms is not None and report.largest_gap_ms > 400  # its limit in this process is 500 ms


def test_a_failure_that_became_a_status(server: Any, raw_upstream: RawUpstream, reports: list[StreamReport]) -> None:
    model = raw_upstream.plays(head("length", status=401))
    assert chat(server, model, path="/chat").status == 401
    report = the_one(reports)
    assert (report.reason, report.code, report.events, report.first_event_ms) == ("error", "upstream_error", 0, None)


def test_a_client_that_goes(server: Any, raw_upstream: RawUpstream, reports: list[StreamReport]) -> None:
    with open_exchange(post(server, "/chat", {"q": "a", "model": ticks(raw_upstream, 200)})) as exchange:
        next(exchange.events())
        time.sleep(3 * INTERVAL)
        exchange.leave()
    report = the_one(reports)
    assert (report.reason, report.code) == ("client_gone", None)
    assert 1 <= report.events < 100


def test_a_generator_s_events_are_its_tokens(reports: list[StreamReport]) -> None:
    app = Flask(__name__)

    @app.route("/")
    @event_stream(on_end=reports.append)
    def view() -> Iterator[Any]:
        yield "a"
        yield ""
        yield {"b": 1}

    with serve(app) as server, open_stream(server.url) as stream:
        assert len(list(stream)) == 3
    report = the_one(reports)
    assert (report.reason, report.events, report.tokens) == ("done", 2, 2)


# What the client is told of it, where it is known in time.


def timings(seen: Any) -> dict[str, float]:
    """The milliseconds of each `Server-Timing`."""
    told = ", ".join(value for name, value in seen.headers if name.lower() == "server-timing")
    return {name: float(number) for name, number in re.findall(r"(\w+);dur=([\d.]+)", told)}


HEAD_AFTER, FIRST_AFTER = Pause(0.2), Pause(0.3)


def slow_start(upstream: RawUpstream) -> str:
    return upstream.plays(HEAD_AFTER, head("chunked"), FIRST_AFTER, chunk(A), chunk(DONE) + FINAL_CHUNK)


def test_the_head_says_how_long_the_first_event_took(server: Any, raw_upstream: RawUpstream) -> None:
    seen = chat(server, slow_start(raw_upstream), path="/chat")
    told = timings(seen)
    assert list(told) == ["first_event"]
    assert 450 < told["first_event"] <= (seen.events[0].at - seen.sent_at) * 1000 + 5


def test_on_the_routes_of_the_apis_also_how_long_the_upstream_s_head_did(
    server: Any, raw_upstream: RawUpstream
) -> None:
    told = timings(complete(server, slow_start(raw_upstream), path="/v1/chat/completions"))
    assert sorted(told) == ["first_event", "upstream"]
    assert 150 < told["upstream"] < told["first_event"]
    whole = raw_upstream.plays(HEAD_AFTER, answer("length", b"{}", content_type="application/json"))
    assert list(timings(complete(server, whole, path="/v1/chat/completions", stream=False))) == ["upstream"]


def test_what_comes_too_late_for_the_head_is_not_told(relays: Any, raw_upstream: RawUpstream) -> None:
    seen = complete(relays, slow_start(raw_upstream), path="/beats/v1/chat/completions")
    assert (seen.status, timings(seen)) == (200, {})


# Whose silence it is, and the log, under gunicorn.

LINE = re.compile(r"stream id=(\w+) end=(\w+) .*largest_gap_ms=(\S+) gap_of=(\S+) client_wait_ms=(\d+)")


def lines(server: Any) -> list[Any]:
    return list(LINE.finditer(server.errors()))


def line_after(server: Any, before: int) -> Any:
    wait_until(lambda: len(lines(server)) > before)
    assert len(lines(server)) == before + 1
    return lines(server)[-1]


def test_each_stream_is_one_line_of_gunicorn_s_log(raw_gunicorn: GunicornProcess, raw_upstream: RawUpstream) -> None:
    wait_until_quiet(raw_gunicorn)
    before = len(lines(raw_gunicorn))
    for count in range(3):
        chat(raw_gunicorn, ticks(raw_upstream, 2))
        line = line_after(raw_gunicorn, before + count)
        assert line[2] == "done"
        (whole,) = [text for text in raw_gunicorn.errors().splitlines() if line[1] in text]
        assert "[INFO]" in whole


def wait_until_quiet(server: Any) -> None:
    """Wait until no stream of another test is open."""

    def is_quiet() -> bool:
        with open_stream(server.url + "/stream/stats") as stream:
            return bool(stream.json()["open"] == 0)

    wait_until(is_quiet)


def test_a_slow_source_is_told_from_a_client_that_does_not_read(
    raw_gunicorn: GunicornProcess, raw_upstream: RawUpstream
) -> None:
    wait_until_quiet(raw_gunicorn)
    before = len(lines(raw_gunicorn))
    chat(raw_gunicorn, raw_upstream.plays(head("chunked"), chunk(A), Pause(0.6), chunk(DONE) + FINAL_CHUNK))
    slow = line_after(raw_gunicorn, before)
    assert (slow[2], slow[4]) == ("done", SOURCE) and float(slow[3]) > 500
    flood = raw_upstream.plays(head("chunked"), *[chunk(said("x" * 65536))] * 1000, end="hold")
    with ask_and_never_read(raw_gunicorn, "/stream/chat", flood):
        wait_for(lambda: raw_upstream.asked_for(flood))
        time.sleep(1)  # for which it is waited
    unread = line_after(raw_gunicorn, before + 1)
    assert (unread[2], unread[4]) == ("client_gone", CLIENT)
    assert float(unread[3]) > 500 and int(unread[5]) > 500


APP = """
import logging
logging.basicConfig({})
from flaskstream.app import create_app
app = create_app()
"""


@pytest.mark.parametrize(
    ("setting", "count"),
    [("level=logging.WARNING", 0), ("level=logging.INFO", 1), ('filename="app.log", level=logging.INFO', 0)],
    ids=["from warnings on", "all of it", "to a file"],
)
def test_an_app_that_has_set_up_logging_has_the_line_its_own_way(
    tmp_path: Any, raw_upstream: RawUpstream, setting: str, count: int
) -> None:
    (tmp_path / "logs.py").write_text(APP.format(setting))
    with GunicornProcess({"upstream": raw_upstream.url}, app="logs:app", folder=str(tmp_path)) as server:
        chat(server, ticks(raw_upstream, 2))
        server.close()
        assert len(lines(server)) == count
    log = tmp_path / "app.log"
    assert len(LINE.findall(log.read_text())) == 1 if log.exists() else "app.log" not in setting
