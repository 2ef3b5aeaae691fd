"""The same streams through every server: events arrive when they are made, and every end is clean.

The proof is in the times. Each tick carries the moment at which it was made; a server that holds it back is late by
more than a tick, as the control shows: the same ticks, joined.
"""

from __future__ import annotations

import statistics

import pytest
from raw_client import Connection, request
from servers import PATIENCE, SERVERS, happened_at, wait_until_happened

from flaskstream.doctor.measure import Request, record
from flaskstream.testing import open_stream

INTERVAL = 0.15  # seconds between two ticks
COUNT = 10
TICKS = f"?count={COUNT}&interval={INTERVAL}"


UNFRAMED = {"uwsgi-socket", "uwsgi-gevent", "uwsgi-sync"}
"""They speak HTTP/1.1 and end a body with its connection all the same."""
CAN_RESET = {"gunicorn-gevent", "gunicorn-gthread", "gunicorn-sync", *UNFRAMED}
"""They show the client's connection."""


@pytest.fixture(scope="module", params=SERVERS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def server(name):
    with SERVERS[name]() as url:
        yield url


@pytest.fixture(autouse=True)
def forget(server):
    happened_at(server)


def lags(url):
    """By how much each tick came later than it was made, in seconds."""
    recording = record(Request(url, max_seconds=PATIENCE))
    ticks = [timed for timed in recording.events if timed.event.event == "message"]
    assert len(ticks) == COUNT, recording
    return [timed.at - timed.event.json()["made_at"] for timed in ticks]


def test_ticks_arrive_when_they_are_made(server):
    streamed, joined = lags(f"{server}/ticks{TICKS}"), lags(f"{server}/joined{TICKS}")
    assert statistics.median(streamed) < INTERVAL
    assert streamed[0] < INTERVAL * (COUNT - 1)  # the first came before the last was made
    assert statistics.median(joined) > INTERVAL * (COUNT // 2 - 1)


def test_a_whole_answer_ends_with_done_and_a_proper_end(server):
    with open_stream(f"{server}/ticks?count=3&interval=0") as stream:
        events = [timed.event for timed in stream]
    assert [event.event for event in events] == ["message"] * 3 + ["done"]
    assert stream.ended in ("final_chunk", "close")  # a server of HTTP/1.0 can only close


def test_an_error_in_the_middle_is_an_event_and_a_proper_end(server):
    with open_stream(f"{server}/fails") as stream:
        assert [timed.event.event for timed in stream] == ["message", "error"]
    assert stream.ended in ("final_chunk", "close")


def test_a_faithful_stream_that_fails_tells_it_and_does_not_look_whole(server, name):
    recording = record(Request(f"{server}/cut", max_seconds=PATIENCE))
    first, error = [timed.event for timed in recording.events]
    assert first.data == "first" and "upstream_truncated" in error.data
    if recording.http_version == "1.0":
        assert recording.ended == "close"  # as a whole one: there only the event tells
    else:
        assert recording.ended == ("reset" if name in UNFRAMED else "close")
        assert not recording.framing_complete


def test_a_client_of_http_1_0_such_as_nginx_is_told_by_a_reset(server, name):
    with Connection(server) as client:
        client.send(request("GET", "/cut", version="HTTP/1.0"))
        client.read_to_end()
    assert b"upstream_truncated" in client.received
    if name in CAN_RESET:
        assert client.ended == "reset"


def test_an_error_before_the_first_event_is_a_status(server):
    with open_stream(f"{server}/refuses") as stream:
        assert stream.status == 500
        assert "Internal Server Error" in stream.text()


def test_a_client_that_leaves_ends_the_generator_once(server):
    with open_stream(f"{server}/endless") as stream:
        stream.take(3)
    assert wait_until_happened(server, "closed", "on_end client_gone") == ["began", "closed", "on_end client_gone"]


def test_head_has_the_headers_and_starts_nothing(server):
    with open_stream(f"{server}/endless", "HEAD") as head:
        assert (head.status, head.headers["Content-Type"], head.text()) == (200, "text/event-stream", "")
    assert happened_at(server) == []


def test_a_client_that_comes_back_after_the_end_gets_a_204(server):
    with open_stream(f"{server}/endless", headers={"Last-Event-ID": "done-1"}) as stream:
        assert (stream.status, stream.text()) == (204, "")


def test_empty_items_end_no_stream(server):
    with open_stream(f"{server}/odd") as stream:
        assert [timed.event.event for timed in stream] == ["message", "done"]
