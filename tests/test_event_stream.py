"""`event_stream`: what the items of a generator become on the wire."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from one_view import names_and_data, streamed, text_without_ids

from flaskstream import Event
from flaskstream.errors import InvalidSetting
from flaskstream.response import StreamOptions, event_stream
from flaskstream.sse import Decoder

DONE = 'event: done\nid: done-ID\ndata: {"events":1}\n\n'


def test_each_kind_of_item_is_an_event():
    def view():
        yield "text"
        yield {"a": "ä"}
        yield [1, None]
        yield Event("x", "named", id="7")

    with streamed(view, retry=None) as stream:
        assert text_without_ids(stream) == (
            "data: text\n\n"
            'data: {"a":"ä"}\n\n'
            "data: [1,null]\n\n"
            "event: named\nid: 7\ndata: x\n\n"
            'event: done\nid: done-ID\ndata: {"events":4}\n\n'
        )


def test_empty_items_are_left_out():
    with streamed(lambda: iter(["", b"", None, "a", ""]), retry=None) as stream:
        assert text_without_ids(stream) == "data: a\n\n" + DONE


def test_empty_dicts_and_lists_are_json():
    with streamed(lambda: iter([{}, []])) as stream:
        assert names_and_data(stream)[:2] == [("message", "{}"), ("message", "[]")]


def test_a_generator_without_items_is_a_whole_answer():
    with streamed(lambda: iter([])) as stream:
        assert stream.status == 200
        assert names_and_data(stream) == [("done", '{"events":0}')]


def test_line_ends_in_the_text_forge_nothing():
    text = "a\rid: 99\r\ndata: b\nevent: x"
    with streamed(lambda: iter([text])) as stream:
        event = next(iter(stream)).event
    assert (event.data, event.event, event.id) == ("a\nid: 99\ndata: b\nevent: x", "message", None)


def test_an_event_of_megabytes_arrives_whole():
    text = "0123456789abcdef" * 200_000
    with streamed(lambda: iter([text, "next"])) as stream:
        first, second = stream.take(2)
    assert first.event.data == text
    assert second.event.data == "next"


def test_an_endless_generator_is_read_for_as_long_as_one_likes():
    with streamed(lambda: map(str, itertools.count())) as stream:
        assert [timed.event.data for timed in stream.take(500)] == [str(n) for n in range(500)]


@pytest.mark.parametrize("item", [7, 1.5, b"bytes", ("a",), {1, 2}, object()], ids=lambda item: type(item).__name__)
def test_an_item_that_is_no_event_is_the_views_error(item, caplog):
    def view():
        yield "good"
        yield item

    with streamed(view) as stream:
        assert [name for name, _ in names_and_data(stream)] == ["message", "error"]
    assert "expected a str, dict, list or Event from the generator, got " + type(item).__name__ in caplog.text


@pytest.mark.parametrize("make", [lambda: Event(""), lambda: {"a": float("nan")}, lambda: Event("a", id="\n")])
def test_an_event_that_the_wire_cannot_carry_is_the_views_error(make):
    def view():
        yield "good"
        yield make()

    with streamed(view) as stream:
        assert [name for name, _ in names_and_data(stream)] == ["message", "error"]


# The first event.


def test_the_first_event_alone_tells_when_to_reconnect():
    with streamed(lambda: iter("ab"), retry=1234) as stream:
        told = re.match(r"retry: (\d+)\ndata: a\n\ndata: b\n\n", text_without_ids(stream))
    assert told is not None and 1234 <= int(told[1]) <= 1234 * 1.5


def test_the_views_own_retry_wins():
    with streamed(lambda: iter([Event("a", retry=5), "b"]), retry=1234) as stream:
        assert text_without_ids(stream).startswith("retry: 5\ndata: a\n\ndata: b\n\n")


def test_without_events_the_end_tells_when_to_reconnect():
    with streamed(lambda: iter([]), retry=1234) as stream:
        assert re.search(r"retry: \d{4}\ndata: \{", stream.text())


# Pauses.


def test_silence_is_filled_with_comments_between_events():
    def view():
        yield "a"
        time.sleep(0.5)
        yield "b"

    with streamed(view, heartbeat=0.05) as stream:
        first, second = stream.take(2)
        heartbeats = [comment for comment in stream.comments if first.at < comment.at < second.at]
    assert {comment.text for comment in heartbeats} == {"hb"}
    assert 2 <= len(heartbeats) <= 10


def test_a_stream_without_ids_has_heartbeats_in_blocks_and_one_with_ids_has_lines():
    def view(first):
        yield first
        time.sleep(0.3)

    with streamed(lambda: view("a"), heartbeat=0.05) as stream:
        assert "data: a\n\n: hb\n\n: hb\n\n" in stream.text()
    with streamed(lambda: view(Event("a", id="1")), heartbeat=0.05) as stream:
        text = stream.text()
        assert "data: a\n\n: hb\n: hb\n" in text
        assert [event.data for event in Decoder().feed(text.encode())] == ["a", '{"events":1}']


def test_no_heartbeat_means_none():
    def view():
        yield "a"
        time.sleep(0.3)

    with streamed(view, heartbeat=0) as stream:
        assert names_and_data(stream)
        assert stream.comments == []


def test_while_the_first_event_is_awaited_no_byte_goes_out_and_then_a_comment_does():
    def view():
        time.sleep(0.6)
        yield "a"

    with streamed(view, status_grace=0.2, heartbeat=0.1) as stream:
        (first,) = stream.take(1)
        comments = stream.comments
    assert [comment.text for comment in comments[:2]] == ["open", "hb"]
    assert 0.2 <= comments[0].at < first.at


def test_without_a_grace_the_head_goes_out_at_once():
    def view():
        time.sleep(0.5)
        yield "a"

    with streamed(view, status_grace=0) as stream:
        (first,) = stream.take(1)
        assert stream.comments[0].text == "open"
    assert first.at - stream.comments[0].at > 0.25


# Headers.


def test_the_headers_are_those_that_work_and_no_others():
    with streamed(lambda: iter("a")) as stream:
        stream.text()
        headers = {name: value for name, value in stream.headers if name not in ("Date", "Server")}
    assert re.fullmatch(r"first_event;dur=[\d.]+", headers.pop("Server-Timing"))
    headers.pop("Transfer-Encoding", None)  # the server's own
    assert headers == {
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-cache, no-store, no-transform",
        "X-Accel-Buffering": "no",
        "Connection": "close",  # the server's own
    }


def test_the_charset_is_there_for_those_who_want_it():
    with streamed(lambda: iter("a"), charset=True) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream; charset=utf-8"


def test_conditional_and_range_requests_get_the_whole_stream():
    asked = {"If-None-Match": "*", "If-Modified-Since": "Mon, 01 Jan 2035 00:00:00 GMT", "Range": "bytes=0-3"}
    with streamed(lambda: iter("a"), headers=asked) as stream:
        assert stream.status == 200
        assert names_and_data(stream)[0] == ("message", "a")


# Options.


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat": -1},
        {"heartbeat": float("nan")},
        {"heartbeat": True},
        {"status_grace": "5"},
        {"status_grace": float("inf")},
        {"retry": -1},
        {"retry": 1.5},
        {"retry": 86_400_001},
        {"retry": True},
        {"heartbeat": 1e12},
        {"heartbeat": 1e-9},
        {"status_grace": 86_401},
        {"max_duration": 1e12},
        {"max_streams": True},
        {"max_streams": 0},
        {"max_streams": 2.0},
        {"heartbeat_form": None},
        {"heartbeat_form": []},
        {"charset": "latin-1"},
        {"charset": None},
        {"keep_context": "no"},
        {"keep_context": 0},
        {"printer": True},
        {"on_end": "x"},
    ],
    ids=repr,
)
def test_an_option_that_cannot_work_is_refused_before_the_first_request(wrong):
    (name,) = wrong
    with pytest.raises(InvalidSetting, match=f"^{name}: expected"):
        event_stream(**wrong)
    with pytest.raises(InvalidSetting):
        StreamOptions(**wrong)


def test_the_longest_and_the_shortest_times_are_options():
    day = 86_400
    StreamOptions(heartbeat=day, status_grace=day, max_duration=day, retry=day * 1000, max_streams=1)
    StreamOptions(heartbeat=0.001, status_grace=0, max_duration=0, retry=0)


@pytest.mark.parametrize("wrong", [15.0, 5, "x", []], ids=repr)
def test_what_is_no_view_is_refused_where_it_is_decorated(wrong):
    with pytest.raises(TypeError, match="event_stream: expected a view function, or options by name, got "):
        event_stream(wrong)
    with pytest.raises(TypeError, match="event_stream: expected a view function"):
        event_stream(heartbeat=1)(wrong)


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="hartbeat"):
        event_stream(hartbeat=1)
