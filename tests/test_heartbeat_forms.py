"""How a heartbeat is written: each form on the wire, and what readers make of it that read as they should not."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from answer_vectors import DONE, A, B
from dialect_vectors import MESSAGE, OPENED, words
from raw_upstream import Pause, RawUpstream, chunk, head
from relay_client import chat, complete, end, events, text

from flaskstream import create_blueprint, event_stream
from flaskstream.dialects import ANTHROPIC, OPENAI
from flaskstream.errors import InvalidSetting
from flaskstream.sse import Decoder, Event
from flaskstream.upstream import Upstream
from flaskstream.wire import HEARTBEAT_FORMS, EventWire, FaithfulWire

SILENCE = Pause(0.5)
BLOCK, LINE = b": hb\n\n", b": hb\n"
OURS = b"event: ping\ndata: {}\n\n"
THEIRS = b'event: ping\ndata: {"type":"ping"}\n\n'

ON_OUR_WIRE = {"comment": BLOCK, "block": BLOCK, "line": LINE, "ping": OURS}
WITH_IDS = {**ON_OUR_WIRE, "comment": LINE}
OPENAI_S = {**ON_OUR_WIRE, "ping": BLOCK}
OPENAI_S_WITH_IDS = {**WITH_IDS, "ping": LINE}
ANTHROPIC_S = {**ON_OUR_WIRE, "ping": THEIRS}

every_form = pytest.mark.parametrize("form", HEARTBEAT_FORMS)


@every_form
def test_each_form_is_what_it_is_called(form: str) -> None:
    wire = EventWire(heartbeat_form=form)
    assert wire.heartbeat() == ON_OUR_WIRE[form]
    assert FaithfulWire(OPENAI, form).heartbeat() == OPENAI_S[form]
    assert FaithfulWire(ANTHROPIC, form).heartbeat() == ANTHROPIC_S[form]


@every_form
def test_an_id_makes_a_line_of_the_comment_that_was_a_block(form: str) -> None:
    ours, theirs = EventWire(heartbeat_form=form), FaithfulWire(OPENAI, form)
    ours.frame(Event("a", id="1"))
    theirs.frame(b"id: 1\n" + A)
    assert (ours.heartbeat(), theirs.heartbeat()) == (WITH_IDS[form], OPENAI_S_WITH_IDS[form])


@every_form
def test_what_opens_a_stream_is_a_comment_whatever_the_form(form: str) -> None:
    as_line = form == "line"
    for wire in (EventWire(3000, heartbeat_form=form), FaithfulWire(ANTHROPIC, form)):
        assert wire.opening() == (b": open\n" if as_line else b": open\n\n")


@every_form
def test_a_heartbeat_carries_neither_an_id_nor_the_reconnection_time(form: str) -> None:
    wire = EventWire(retry=1234, heartbeat_form=form)
    beat = wire.heartbeat()
    assert b"id:" not in beat and b"retry:" not in beat
    assert wire.frame(Event("a")).count(b"retry: 1234") == 1  # the first event does


# Through a server.


def slow(upstream: RawUpstream, *events: bytes) -> str:
    steps = [step for event in events for step in (SILENCE, chunk(event))]
    return upstream.plays(head("chunked"), *steps, end="fin")


@every_form
def test_beats_of_our_events_stand_between_them(relays: Any, raw_upstream: RawUpstream, form: str) -> None:
    seen = chat(relays, slow(raw_upstream, A, B, DONE), path=f"/{form}/chat")
    named = [event.event for event in events(seen)]
    pings = named.count("ping")
    without = [event for event in events(seen) if event.event != "ping"]
    assert "".join(event.json().get("t", "") for event in without) == "ab"
    assert (without[-1].event, without[-1].json()) == ("done", {"events": 2})
    assert seen.framing_complete
    beats = pings if form == "ping" else [comment.text for comment in seen.comments].count("hb")
    assert beats >= 4 and seen.body.count(ON_OUR_WIRE[form]) >= beats
    assert (pings == 0) == (form != "ping")


@every_form
@pytest.mark.parametrize("api", ["chat/completions", "messages"])
def test_beats_of_a_faithful_route_are_those_of_its_api_and_leave_its_bytes_whole(
    relays: Any, raw_upstream: RawUpstream, form: str, api: str
) -> None:
    is_openai = api == "chat/completions"
    told = (A, B, DONE) if is_openai else (OPENED, words("a"), MESSAGE[len(OPENED) :])
    seen = complete(relays, slow(raw_upstream, *told), path=f"/{form}/v1/{api}")
    beat = (OPENAI_S if is_openai else ANTHROPIC_S)[form]
    opening = b": open\n" if form == "line" else b": open\n\n"
    head_of_it, _, body = seen.body.partition(opening)
    assert head_of_it == b"" and seen.ended == "final_chunk"
    theirs = b"".join(told)
    own_pings = theirs.count(beat)
    assert body.count(beat) - own_pings >= 4
    assert body.replace(beat, b"") == theirs.replace(beat, b"")


def test_a_blueprint_that_names_no_form_has_the_safe_one(relays: Any, raw_upstream: RawUpstream) -> None:
    seen = chat(relays, slow(raw_upstream, A, DONE), path="/beats/chat")
    assert (text(seen), end(seen).event) == ("a", "done")
    assert BLOCK in seen.body


# Readers that read as they should not.


def splits_at_blank_lines_and_keeps_data(stream: bytes) -> list[bytes]:
    return [block[6:] for block in stream.split(b"\n\n") if block.startswith(b"data: ")]


def reads_line_by_line(stream: bytes) -> list[bytes]:
    return [line[6:] for line in stream.splitlines() if line.startswith(b"data: ")]


def reads_as_the_standard_says(stream: bytes) -> list[bytes]:
    return [event.data.encode() for event in Decoder().feed(stream) if event.event == "message"]


Reader = Callable[[bytes], "list[bytes]"]
READS: dict[Reader, tuple[str, ...]] = {
    reads_as_the_standard_says: HEARTBEAT_FORMS,
    splits_at_blank_lines_and_keeps_data: ("comment", "block", "ping"),
    reads_line_by_line: ("comment", "block", "line"),
}
"""Which forms are nothing to a reader; the others cost it an event, or bring it one."""


@every_form
@pytest.mark.parametrize(("reader", "forms"), READS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_form_promises_no_more_than_it_keeps(reader: Reader, forms: tuple[str, ...], form: str) -> None:
    stream = EventWire(heartbeat_form=form).heartbeat() + b"data: 1\n\n"
    assert (reader(stream) == [b"1"]) == (form in forms)


# The setting.


@pytest.mark.parametrize("form", ["", "Block", "none", None, 1, ["block"]])
def test_another_form_is_refused_by_name(form: Any) -> None:
    expected = "heartbeat_form: expected one of comment, block, line, ping, got "
    with pytest.raises(InvalidSetting, match=expected):
        event_stream(heartbeat_form=form)
    with pytest.raises(InvalidSetting, match=expected):
        create_blueprint(Upstream("http://127.0.0.1:9/v1"), heartbeat_form=form)
