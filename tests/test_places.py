"""A place is taken until a stream has ended and its generator has too: `max_streams` bounds what is at work."""

from __future__ import annotations

import threading

import pytest
from one_view import PATIENCE, app_of, eventually, opened
from raw_client import Connection, request

import flaskstream.response
from flaskstream.errors import TooManyStreams
from flaskstream.open_streams import OpenStreams
from flaskstream.testing import open_stream, serve

MOST = 2


@pytest.fixture
def open_streams(monkeypatch):
    streams = OpenStreams()
    monkeypatch.setattr(flaskstream.response, "OPEN_STREAMS", streams)
    return streams


@pytest.mark.parametrize("first, second", [("stream", "generator"), ("generator", "stream")])
def test_a_place_is_given_back_by_both(first, second):
    streams = OpenStreams()
    place = streams.enter(1)
    getattr(place, f"{first}_ended")()
    with pytest.raises(TooManyStreams):
        streams.enter(1)
    getattr(place, f"{second}_ended")()
    streams.enter(1)


def test_a_stream_that_has_ended_is_not_told_that_the_process_stops():
    streams, told = OpenStreams(), []
    place = streams.enter()
    place.when_stopping(lambda: told.append(True))
    place.stream_ended()
    streams.stop()
    assert not told


def test_generators_that_go_on_when_their_clients_have_gone_keep_their_places(open_streams):
    go_on, began = threading.Event(), []

    def view():
        began.append(threading.current_thread())
        go_on.wait(PATIENCE)  # in a thread nobody can interrupt that
        yield "too late"

    app = app_of(view, max_streams=MOST, status_grace=0)
    with serve(app) as server:
        for n in range(10):
            with Connection(server.url) as connection:
                connection.send(request("GET", "/"))
                connection.read_until(b": open" if n < MOST else b"too_many_streams")
        assert len(began) == MOST
        assert len(open_streams) == MOST
        go_on.set()
        assert eventually(lambda: len(open_streams) == 0)
        with open_stream(server.url + "/", timeout=PATIENCE) as stream:
            assert stream.text().count("too late") == 1


def test_who_asks_again_after_the_end_has_a_place(open_streams):
    app = app_of(lambda: iter("abc"), max_streams=1)
    for _ in range(20):
        with opened(app) as stream:
            assert stream.status == 200
            stream.text()


def test_a_generator_that_fails_gives_its_place_back(open_streams):
    def view():
        raise ValueError
        yield

    with opened(app_of(view, max_streams=1)) as stream:
        assert stream.status == 500
    assert len(open_streams) == 0
