"""How a stream ends: whole, failed or left, as its client, the log and `on_end` are told."""

from __future__ import annotations

import json
import threading
import time

import pytest
from flask import abort, jsonify
from one_view import PATIENCE, app_of, names_and_data, opened, streamed

import flaskstream.response
from flaskstream.errors import EventTooLarge, UpstreamRefused, UpstreamStatus, UpstreamTruncated
from flaskstream.open_streams import OpenStreams

SECRET = "sk-secret"


def failing_with(error, after=0):
    def view():
        yield from map(str, range(after))
        raise error

    return view


# Before the first event: a real status.


def test_abort_before_the_first_event_is_its_status():
    def view():
        abort(403)
        yield "never"

    with streamed(view) as stream:
        assert stream.status == 403
        assert "text/event-stream" not in stream.headers["Content-Type"]


def test_an_error_before_the_first_event_goes_to_the_apps_own_handler():
    app = app_of(failing_with(LookupError(SECRET)))
    app.register_error_handler(LookupError, lambda error: (jsonify(handled=True), 409))
    with opened(app) as stream:
        assert (stream.status, stream.json()) == (409, {"handled": True})


def test_an_error_before_the_first_event_is_a_500_without_its_message():
    with streamed(failing_with(ValueError(SECRET))) as stream:
        assert stream.status == 500
        assert SECRET not in stream.text()


@pytest.mark.parametrize("error", [SystemExit(SECRET), KeyboardInterrupt(SECRET), GeneratorExit(SECRET)], ids=repr)
def test_what_is_no_exception_is_a_500_too_and_ends_no_server(error):
    with streamed(failing_with(error)) as stream:
        assert stream.status == 500
        assert stream.json()["error"]["code"] == "internal"


def test_an_upstreams_failure_is_its_status_and_a_code(caplog):
    with streamed(failing_with(UpstreamRefused(SECRET))) as stream:
        assert (stream.status, stream.headers["Content-Type"]) == (502, "application/json")
        assert "no-store" in stream.headers["Cache-Control"]
        error = stream.json()["error"]
    assert error["code"] == "upstream_refused"
    assert SECRET not in str(error)
    assert error["id"] in caplog.text


def test_an_upstreams_own_answer_is_kept():
    error = UpstreamStatus(429, b'{"slow": "down"}', headers={"Retry-After": "7"})
    with streamed(failing_with(error)) as stream:
        assert (stream.status, stream.headers["Retry-After"], stream.json()) == (429, "7", {"slow": "down"})


# After it, or when the grace is over: an event.


@pytest.mark.parametrize(
    "error",
    [ValueError(SECRET), SystemExit(SECRET), KeyboardInterrupt(SECRET), GeneratorExit(SECRET)],
    ids=repr,
)
def test_an_error_in_the_middle_is_an_event_with_a_code_and_the_id_of_the_log(error, caplog):
    with streamed(failing_with(error, after=2), retry=None) as stream:
        events = names_and_data(stream)
    assert [name for name, _ in events] == ["message", "message", "error"]  # and no done
    told = json.loads(events[-1][1])
    assert (set(told), told["code"]) == ({"code", "message", "id"}, "internal")
    assert SECRET not in events[-1][1]
    assert told["id"] in caplog.text
    assert SECRET in caplog.text


@pytest.mark.parametrize("error", [UpstreamTruncated(SECRET), EventTooLarge(SECRET)], ids=repr)
def test_an_error_that_is_known_keeps_its_code_and_its_sentence(error):
    with streamed(failing_with(error, after=1)) as stream:
        told = json.loads(names_and_data(stream)[-1][1])
    assert (told["code"], told["message"]) == (error.code, error.message)


def test_abort_in_the_middle_is_an_error_event():
    def view():
        yield "a"
        abort(403)

    with streamed(view) as stream:
        assert stream.status == 200
        assert [name for name, _ in names_and_data(stream)] == ["message", "error"]


def test_an_error_after_the_grace_is_an_error_event():
    def view():
        time.sleep(0.3)
        abort(403)
        yield "never"

    with streamed(view, status_grace=0.05) as stream:
        assert stream.status == 200
        assert [name for name, _ in names_and_data(stream)] == ["error"]


def test_what_was_pulled_within_the_grace_is_neither_lost_nor_doubled():
    def view():
        for n in range(5):
            time.sleep(0.02)
            yield str(n)

    for grace in (0, 0.001, 5):
        with streamed(view, status_grace=grace) as stream:
            assert [data for _, data in names_and_data(stream)] == ["0", "1", "2", "3", "4", '{"events":5}']


@pytest.fixture
def open_streams(monkeypatch):
    streams = OpenStreams()
    monkeypatch.setattr(flaskstream.response, "OPEN_STREAMS", streams)
    return streams


def test_a_worker_that_stops_while_the_first_event_is_awaited_says_so(open_streams):
    go_on = threading.Event()

    def view():
        open_streams.stop()
        go_on.wait(PATIENCE)
        yield "too late"

    with streamed(view) as stream:
        assert (stream.status, stream.json()["error"]["code"]) == (503, "shutting_down")
        assert stream.headers["Retry-After"].isdigit()
        go_on.set()


def test_a_stream_that_cannot_be_started_takes_no_place(open_streams, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(flaskstream.response, "Pump", fail)
    with streamed(lambda: iter("a")) as stream:
        assert stream.status == 500
    assert len(open_streams) == 0


# on_end.


def test_a_whole_answer_is_reported():
    reports = []  # whole when the server has ended

    go_on = threading.Event()

    def view():
        time.sleep(0.1)

        def items():
            yield "a"
            go_on.wait(PATIENCE)
            yield "bc"

        return items()

    with streamed(view, on_end=reports.append, retry=None) as stream:
        stream.take(1)
        time.sleep(0.1)
        go_on.set()
        *_, done = stream
    (report,) = reports
    assert (report.reason, report.code, report.events) == ("done", None, 2)
    assert report.bytes == len("data: a\n\ndata: bc\n\n")
    assert 100 <= report.first_event_ms <= report.duration_ms - 100  # from the request on
    assert done.event.id == f"done-{report.stream_id}"


def test_a_failure_in_the_middle_is_reported():
    reports = []
    with streamed(failing_with(UpstreamTruncated(), after=3), on_end=reports.append) as stream:
        told = json.loads(names_and_data(stream)[-1][1])
    (report,) = reports
    assert (report.reason, report.code, report.events) == ("error", "upstream_truncated", 3)
    assert report.stream_id == told["id"]


@pytest.mark.parametrize("error", [UpstreamRefused(), ValueError(), SystemExit()], ids=repr)
def test_a_failure_before_the_first_event_is_reported(error):
    reports = []
    with streamed(failing_with(error), on_end=reports.append) as stream:
        stream.text()
    (report,) = reports
    assert (report.reason, report.code) == ("error", getattr(error, "code", None) or "internal")
    assert (report.events, report.bytes, report.first_event_ms) == (0, 0, None)


def test_a_client_that_left_is_reported():
    reports = []

    def view():
        while True:
            yield "a"
            time.sleep(0.01)

    with streamed(view, on_end=reports.append) as stream:
        stream.take(3)
        stream.close()
    (report,) = reports
    assert (report.reason, report.code) == ("client_gone", None)
    assert report.events >= 3


def test_an_on_end_that_fails_harms_nothing(caplog):
    def on_end(report):
        raise ValueError("of on_end")

    with streamed(lambda: iter("a"), on_end=on_end) as stream:
        assert names_and_data(stream)[-1][0] == "done"
    assert "on_end failed" in caplog.text


def test_the_printer_gets_each_event_before_its_client_does():
    printed = []

    def printer(stream_id, number, wire):
        printed.append((stream_id, number, wire))

    with streamed(lambda: iter("ab"), printer=printer, retry=None) as stream:
        *_, done = stream
    stream_id = done.event.id[len("done-") :]
    assert printed == [(stream_id, 1, b"data: a\n\n"), (stream_id, 2, b"data: b\n\n")]
