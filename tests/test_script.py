import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaskstream.lab.model.script import CODINGS, FRAMINGS, LINE_ENDS, Script


def test_a_name_alone_is_the_script_of_defaults():
    assert Script.parse("gpt-4o-mini") == Script(name="gpt-4o-mini")
    assert Script.parse("tick?") == Script()


def test_every_key_is_read_from_the_query_string():
    told = (
        "slow?tokens=9&interval_ms=20&framing=length&coding=gzip-unflushed&slow_headers_ms=1&silence_after=3"
        "&silence_ms=70&close_at=6&no_done=1&error_after=8&status=503&retry_after=4"
        "&content_type=text%2Fhtml%3B+charset%3Dutf-8&line_end=crlf&comments=1&usage=1&piece_bytes=5&tool_calls=2"
    )
    assert Script.parse(told) == Script(
        name="slow",
        tokens=9,
        interval_ms=20,
        framing="length",
        coding="gzip-unflushed",
        slow_headers_ms=1,
        silence_after=3,
        silence_ms=70,
        close_at=6,
        no_done=True,
        error_after=8,
        status=503,
        retry_after=4,
        content_type="text/html; charset=utf-8",
        line_end="crlf",
        comments=True,
        usage=True,
        piece_bytes=5,
        tool_calls=2,
    )
    assert Script.parse("x?no_terminator=1&hold_open_ms=2") == Script("x", no_terminator=True, hold_open_ms=2)
    assert Script.parse("x?reset_at=0").reset_at == 0


def test_an_empty_content_type_is_told_apart_from_none():
    assert Script.parse("x?content_type=").content_type == ""
    assert Script.parse("x").content_type is None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("tick?tokns=3", "expected the keys tokens, tool_calls, .*, got 'tokns'"),
        ("tick?name=x", "got 'name'"),
        ("tick?tokens", "tokens: expected a whole number from 0 to 100000, got ''"),
        ("tick?tokens=many", "tokens: expected a whole number from 0 to 100000, got 'many'"),
        ("tick?tokens=-1", "got '-1'"),
        ("tick?tokens=1.5", "got '1.5'"),
        ("tick?tokens=٣", "got '٣'"),
        ("tick?tokens=100001", "tokens: expected a whole number from 0 to 100000, got 100001"),
        ("tick?tokens=3&tokens=4", "tokens: expected once"),
        ("tick?tool_calls=17", "tool_calls: expected a whole number from 0 to 16, got 17"),
        ("tick?framing=http2", "framing: expected one of chunked, close, http10, length, got 'http2'"),
        ("tick?coding=br", "coding: expected one of identity, gzip, gzip-unflushed, deflate, auto, got 'br'"),
        ("tick?line_end=lfcr", "line_end: expected one of lf, crlf, cr, got 'lfcr'"),
        ("tick?usage=yes", "usage: expected 0 or 1, got 'yes'"),
        ("tick?status=304", "status: expected 200, or a number from 400 to 599, got 304"),
        ("tick?status=100", "status: expected 200, or a number from 400 to 599, got 100"),
        ("tick?content_type=a%0d%0ab", "content_type: expected printable ASCII"),
        ("?tokens=3", "name: expected printable text"),
        ("a\nb", "name: expected printable text"),
        ("tick?tokens=3&silence_after=4", "silence_after: expected at most the 3 tokens that are said, got 4"),
        ("tick?tokens=3&error_after=4", "error_after: expected at most the 3 tokens that are said, got 4"),
        ("tick?silence_ms=4", "silence_ms: expected together with silence_after, got 4 alone"),
        ("tick?reset_at=1&close_at=1", "expected one of them, got reset_at and close_at"),
        ("tick?reset_at=1&no_terminator=1", "expected one of them, got reset_at and no_terminator"),
        ("tick?no_terminator=1&framing=close", "no_terminator: expected framing=chunked, got 'close'"),
        ("tick?hold_open_ms=5&framing=length", "hold_open_ms: expected a framing with an end"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_was_expected(model, message):
    with pytest.raises(ValueError, match=message):
        Script.parse(model)


def test_a_script_built_by_hand_is_checked_too():
    for wrong in ({"tokens": -1}, {"tokens": 2.0}, {"tokens": None}, {"no_done": 1}, {"framing": "none"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Script(**wrong)


@given(
    st.builds(
        Script,
        name=st.text("tick-/:.é ", min_size=1),
        tokens=st.integers(5, 100),
        framing=st.sampled_from(FRAMINGS),
        coding=st.sampled_from(CODINGS),
        line_end=st.sampled_from(list(LINE_ENDS)),
        silence_after=st.none() | st.integers(0, 5),
        reset_at=st.none() | st.integers(0, 999),
        no_done=st.booleans(),
        content_type=st.none() | st.text(st.characters(min_codepoint=32, max_codepoint=126)),
    )
)
def test_the_model_field_reads_back_as_the_same_script(script):
    assert Script.parse(script.model) == script


def test_only_what_differs_from_the_defaults_is_written():
    assert Script().model == "tick"
    assert Script(tokens=9, usage=True, framing="close").model == "tick?tokens=9&framing=close&usage=1"


def test_the_text_is_its_tokens_and_always_the_same():
    script = Script(tokens=70)
    assert len(script.token_texts) == 70
    assert "".join(script.token_texts) == script.text == Script(tokens=70).text
    assert Script(tokens=24).text == script.text[: len(Script(tokens=24).text)]
    assert Script(tokens=0).text == ""


def test_the_text_looks_like_a_language_models():
    tokens = Script(tokens=64).token_texts
    assert tokens[0] == "Each"  # no space before the first word, and one before most others
    assert sum(token.startswith(" ") for token in tokens) > len(tokens) / 2
    text = Script(tokens=24).text  # the default holds all that tears when bytes are cut
    assert any(ord(character) > 0xFFFF for character in text)
    assert any(0x4E00 <= ord(character) <= 0x9FFF for character in text)
    assert '"' in "".join(tokens) and "\n" in "".join(tokens)
    assert not any("\n" in json.dumps(token) for token in tokens)


def test_a_sentence_ends_every_eight_tokens():
    tokens = Script(tokens=64).token_texts
    assert [n for n, token in enumerate(tokens, 1) if token[-1] in ".!?"] == list(range(8, 65, 8))


def test_a_token_is_due_its_intervals_after_the_head_and_later_by_the_silence():
    script = Script(tokens=4, interval_ms=100, silence_after=2, silence_ms=1000)
    assert [script.due(n) for n in (1, 2, 3, 4)] == pytest.approx([0.1, 0.2, 1.3, 1.4])
    assert script.seconds == pytest.approx(1.4)
    assert Script(tokens=4, interval_ms=100).seconds == pytest.approx(0.4)


def test_a_silence_without_a_length_lasts_until_the_client_leaves():
    script = Script(tokens=4, silence_after=2)
    assert script.due(2) < math.inf
    assert script.due(3) == script.seconds == math.inf


def test_each_call_of_a_tool_is_a_name_and_json_in_fragments():
    script = Script(tokens=1, tool_calls=3)
    assert [piece.kind for piece in script.pieces[:2]] == ["text", "call"]
    assert len(script.pieces) == script.length
    arguments = [json.loads(call.arguments) for call in script.calls]
    assert all(len(call.fragments) > 2 for call in script.calls)
    assert len({str(each) for each in arguments}) == 3
    for n, call in enumerate(script.calls):
        said = [piece.text for piece in script.pieces if (piece.kind, piece.call) == ("arguments", n)]
        assert "".join(said) == call.arguments


def test_the_parts_of_calls_take_their_time_and_can_be_the_place_of_a_failure():
    script = Script(tokens=2, tool_calls=1, interval_ms=100)
    assert script.length > 2 and script.text == Script(tokens=2).text
    assert script.seconds == pytest.approx(script.length * 0.1)
    assert Script(tokens=2, tool_calls=1, error_after=script.length, silence_after=3)
    with pytest.raises(ValueError, match=f"error_after: expected at most the {script.length} tokens"):
        Script(tokens=2, tool_calls=1, error_after=script.length + 1)
