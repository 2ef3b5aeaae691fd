"""Events, how they are written, and that what was written is read again by us (by others: test_decoders)."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sse_reading import anything, byte_by_byte, read
from sse_reference import Read
from sse_vectors import Outcome

from flaskstream.errors import InvalidEvent
from flaskstream.sse import Decoder, Event, encode, encode_comment, to_json

# Events


def test_an_event_is_frozen_hashable_and_equal_by_what_it_says() -> None:
    (decoded,) = Decoder().feed(b"id: 7\nevent: e\nretry: 5\ndata: d\n\n")
    built = Event("d", "e", "7", 5)
    assert decoded == built
    assert hash(decoded) == hash(built)
    assert vars(decoded) == vars(dataclasses.replace(built, last_event_id="7"))
    assert repr(decoded) == "Event(data='d', event='e', id='7', retry=5, last_event_id='7')"
    assert dataclasses.replace(decoded, data="x") == Event("x", "e", "7", 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        decoded.data = "other"  # type: ignore[misc]


def test_json_over_several_lines_is_read() -> None:
    (event,) = Decoder().feed(b'data: {\ndata: "a":\ndata: 1}\n\n')
    assert event.json() == {"a": 1}


def test_an_event_whose_data_is_no_json_is_one_error_and_the_next_one_is_read() -> None:
    malformed, after = Decoder().feed(b'data: {"a":1}\ndata: {"b":2}\n\ndata: {"c":3}\n\n')
    with pytest.raises(json.JSONDecodeError):
        malformed.json()
    assert after.json() == {"c": 3}


def test_json_nested_deeper_than_python_follows_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="data: expected JSON, got a nesting too deep"):
        Event("[" * 200_000).json()


LONE = "\ud800"

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"data": b"a"}, "data: expected a str, got bytes: b'a'"),
    ({"data": None}, "data: expected a str, got NoneType: None"),
    (
        {"data": {"a": 1}},
        r"data: expected a str, got dict: {'a': 1} \(.* yield it without an Event, or give it to json.dumps\)",
    ),
    ({"data": LONE}, "data: expected text that UTF-8 can carry, got .*surrogates not allowed"),
    ({"data": "a", "event": "x\ndata: forged"}, r"event: expected no '\\n' in it, got 'x\\ndata: forged'"),
    ({"data": "a", "event": "x\rid: 1"}, r"event: expected no '\\r' in it, got 'x\\rid: 1'"),
    ({"data": "a", "event": ""}, 'event: expected a name, got ""'),
    ({"data": "a", "event": None}, "event: expected a str, got NoneType: None"),
    ({"data": "a", "event": LONE}, "event: expected text that UTF-8 can carry"),
    ({"data": "a", "id": "1\r\n\r\ndata: f"}, r"id: expected no '\\r' in it, got '1\\r\\n\\r\\ndata: f'"),
    ({"data": "a", "id": "1\ndata: f"}, r"id: expected no '\\n' in it, got '1\\ndata: f'"),
    ({"data": "a", "id": "a\x00b"}, r"id: expected no '\\x00' in it, got 'a\\x00b'"),
    ({"data": "a", "id": 7}, "id: expected a str, got int: 7"),
    ({"data": "a", "id": LONE}, "id: expected text that UTF-8 can carry"),
    ({"data": "a", "retry": "5\nid: 9"}, r"retry: expected whole milliseconds, 0 to \d+, got '5\\nid: 9'"),
    ({"data": "a", "retry": -1}, r"retry: expected whole milliseconds, 0 to \d+, got -1"),
    ({"data": "a", "retry": 1.5}, r"retry: expected whole milliseconds, 0 to \d+, got 1.5"),
    ({"data": "a", "retry": True}, r"retry: expected whole milliseconds, 0 to \d+, got True"),
    ({"data": "a", "retry": 10**18}, r"retry: expected whole milliseconds, 0 to 9{18}, got 10{18}"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=[str(fields) for fields, _ in REFUSED])
def test_an_event_that_the_wire_cannot_carry_is_refused_with_what_was_expected_and_what_came(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidEvent, match=message):
        Event(**fields)


def test_a_refusal_quotes_only_the_beginning_of_what_came() -> None:
    with pytest.raises(InvalidEvent) as refusal:
        Event("a", event="x" * 10_000 + "\n")
    assert len(str(refusal.value)) < 200


# Encoding


@pytest.mark.parametrize(
    ("event", "wire"),
    [
        (Event("a"), b"data: a\n\n"),
        (Event(""), b"data: \n\n"),
        (Event("a\nb\rc\r\nd"), b"data: a\ndata: b\ndata: c\ndata: d\n\n"),
        (Event("a\n"), b"data: a\ndata: \n\n"),
        (Event("a", "message"), b"data: a\n\n"),
        (Event("a", "tok", "7", 5), b"event: tok\nid: 7\nretry: 5\ndata: a\n\n"),
        (Event("a", id=""), b"id: \ndata: a\n\n"),
        (Event("a", retry=0), b"retry: 0\ndata: a\n\n"),
        (Event("a", last_event_id="7"), b"data: a\n\n"),
        (Event("\U0001f30d"), b"data: \xf0\x9f\x8c\x8d\n\n"),
    ],
)
def test_an_event_is_written_in_the_safe_dialect(event: Event, wire: bytes) -> None:
    assert encode(event) == wire


def test_a_member_of_a_str_enum_is_written_as_its_value() -> None:
    class Kind(str, enum.Enum):
        DONE = "done"

    event = Event(Kind.DONE, Kind.DONE, Kind.DONE)
    assert encode(event) == b"event: done\nid: done\ndata: done\n\n"
    assert encode_comment(Kind.DONE) == b": done\n\n"


def test_a_lone_cr_in_data_injects_nothing() -> None:
    wire = encode(Event("a\rid: 99\revent: x"))
    assert read([wire]).events == (Read("a\nid: 99\nevent: x"),)


def test_text_that_looks_like_a_whole_event_stays_data() -> None:
    text = "\n\nevent: forged\ndata: f\r\r\nid: 1\r\n\r\n"
    assert read([encode(Event(text))]).events == (Read("\n\nevent: forged\ndata: f\n\nid: 1\n\n"),)


def test_a_comment_of_several_lines_stays_a_comment() -> None:
    wire = encode_comment("hi\rdata: f\n\ndata: g\r\nid: 1")
    outcome = read([wire + b"data: 1\n\n"])
    assert outcome.comments == ("hi", "data: f", "", "data: g", "id: 1")
    assert outcome.events == (Read("1"),)


def test_a_comment_that_utf8_cannot_carry_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="comment: expected text that UTF-8 can carry"):
        encode_comment(LONE)
    with pytest.raises(InvalidEvent, match="comment: expected a str, got bytes"):
        encode_comment(b"hb")  # type: ignore[arg-type]


def naive_reader(stream: bytes) -> list[str]:
    """What many a client does: split at blank lines and keep the blocks that begin with data."""
    return [block[6:] for block in stream.decode().split("\n\n") if block.startswith("data: ")]


def test_a_comment_block_keeps_the_event_after_it_from_readers_that_split_at_blank_lines() -> None:
    stream = encode_comment("hb") + encode(Event("1"))
    assert stream == b": hb\n\ndata: 1\n\n"
    assert naive_reader(stream) == ["1"]
    assert read([stream]) == Outcome((Read("1"),), ("hb",))


def test_a_bare_comment_line_is_read_by_the_standard_and_costs_naive_readers_an_event() -> None:
    stream = encode_comment("hb", block=False) + encode(Event("1"))
    assert stream == b": hb\ndata: 1\n\n"
    assert naive_reader(stream) == []
    assert read([stream]) == Outcome((Read("1"),), ("hb",))


def test_what_is_decoded_and_encoded_again_means_the_same() -> None:
    stream = (
        b'event: message_start\nid: 3\ndata: {"type":"message_start"}\n\n: hb\n\n'
        b'event: ping\nretry: 9\ndata: {"type":"ping"}\n\n: OPENROUTER PROCESSING\n\ndata:[DONE]\n\n'
    )
    again = b"".join(encode(event) for event in Decoder().feed(stream))
    assert read([again]).events == read([stream]).events
    assert b": :" not in again


# Round trips

NASTY = "\r\n\0:\t \x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\ufeff\U0001f30d"
texts = st.text(st.one_of(st.sampled_from(NASTY), st.characters(exclude_categories=["Cs"])))
one_line_texts = texts.map(lambda text: text.replace("\r", "").replace("\n", ""))


def with_lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize("token", [" world", "  x = 1", "\t", " ", "a ", "", "\n", "# title", ": not a comment"])
def test_a_token_comes_back_with_its_spaces(token: str) -> None:
    assert read([encode(Event(token))]).events == (Read(token),)


@anything
@given(texts)
def test_any_text_comes_back_with_its_line_ends_as_lf(text: str) -> None:
    wire = encode(Event(text))
    assert read([wire]).events == (Read(with_lf(text)),)
    assert read(byte_by_byte(wire)).events == (Read(with_lf(text)),)


@anything
@given(
    st.lists(
        st.builds(
            Event,
            texts,
            one_line_texts.map(lambda name: name or "message"),
            st.none() | one_line_texts.map(lambda text: text.replace("\0", "")),
            st.none() | st.integers(0, 10**18 - 1),
        )
    )
)
def test_any_events_come_back_as_they_were(events: list[Event]) -> None:
    decoder = Decoder()
    decoded = decoder.feed(b"".join(map(encode, events)))
    assert decoder.close() == []
    assert not decoder.truncated
    assert decoded == [dataclasses.replace(event, data=with_lf(event.data)) for event in events]


@anything
@given(texts, st.booleans())
def test_any_comment_comes_back_and_is_no_event(text: str, block: bool) -> None:
    outcome = read([encode_comment(text, block=block)])
    assert outcome == Outcome(comments=tuple(with_lf(text).split("\n")))


any_texts = st.text(st.one_of(st.sampled_from(NASTY + "\ud800\udfff"), st.characters()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_texts,
    lambda children: st.lists(children) | st.dictionaries(any_texts, children),
    max_leaves=10,
)


@anything
@given(values)
def test_any_json_comes_back_exactly_and_is_one_line_in_every_reader(value: Any) -> None:
    text = to_json(value)
    assert len(text.splitlines()) == 1
    (event,) = Decoder().feed(encode(Event(text)))
    assert event.data == text
    assert event.json() == json.loads(json.dumps(value))  # two halves of a pair side by side become the pair


@pytest.mark.parametrize("text", ["\u2028\u2029\x85", "\r\n\r", "\ud800", "a\udfff", "\0\x0b\x0c\x1c", "\U0001f30d"])
def test_json_keeps_what_raw_text_cannot(text: str) -> None:
    (event,) = Decoder().feed(encode(Event(to_json({"t": text}))))
    assert event.json() == {"t": text}


def test_json_is_compact_and_leaves_readable_what_is_safe() -> None:
    assert to_json({"t": "\u4f60\U0001f30d", "n": [1, None]}) == '{"t":"\u4f60\U0001f30d","n":[1,null]}'


def list_that_holds_itself() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def list_too_deep() -> list[Any]:
    items: list[Any] = []
    for _ in range(200_000):
        items = [items]
    return items


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, b"bytes", object(), {("a",): 1}, list_that_holds_itself(), list_too_deep()],
    ids=["nan", "infinity", "set", "bytes", "object", "tuple_key", "circle", "too_deep"],
)
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(InvalidEvent, match="expected a value that JSON can carry"):
        to_json(value)
