"""What a look tells of bytes must be what reading them tells; and where it cannot tell, it must say so."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from flaskstream.dialects import OPENAI
from flaskstream.dialects.skimming import PLAIN, is_plain, is_plain_text, is_sound
from flaskstream.relay.follower import Follower

SKIMMER = OPENAI.skimmer
assert SKIMMER is not None


STYLES = ((",", ":"), (", ", ": "))


def event(text: Any, finish: Any = None, index: int = 0, style: Any = STYLES[0], **more: Any) -> bytes:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": finish}
    said = {"id": "chatcmpl-1", "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(said, separators=style, ensure_ascii=False).encode() + b"\n\n"


TOKENS = st.sampled_from(STYLES).flatmap(lambda style: st.builds(event, st.text(min_size=1), style=st.just(style)))
OTHERS = st.one_of(
    st.sampled_from(
        [
            b"data: [DONE]\n\n",
            b": hb\n\n",
            b": hb\n",
            b"\n",
            b"event: error\ndata: {}\n\n",
            b'data: {"error":{"message":"no"}}\n\n',
            b'data: {"choices":[],"usage":{"total_tokens":3}}\n\n',
            b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
            b"id: 7\n" + event("a"),
            event("a").replace(b"\n\n", b"\r\n\r\n"),
            event("a")[:-1],
            event("a")[1:],
            event("a").replace(b"data: ", b"data:"),
            event("a") + b"data: {",
        ]
    ),
    st.builds(event, st.text(), st.sampled_from([None, "stop", "error"]), st.integers(0, 2)),
    st.builds(event, st.sampled_from([None, 3, ["a"], {"content": "a"}])),
    st.binary(max_size=40),
)


@given(st.lists(st.one_of(TOKENS, OTHERS), min_size=1, max_size=4).map(b"".join))
@example(event('"finish_reason":"stop"'))
@example(event('a", "b'))
@example(event("a", tool_calls=[{"index": 1}]))
@example(event("a", choices=[{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]))
def test_what_is_sure_to_be_tokens_is_nothing_else(data: bytes) -> None:
    count = SKIMMER.count(data)
    if not count:
        return
    follower = Follower(OPENAI)
    readings = follower.feed(data)
    assert len(readings) == count
    assert all(reading.text and reading.choices == (0,) for reading in readings)
    assert not follower.is_whole and not any(reading.finished or reading.error for reading in readings)


@given(st.lists(st.text(alphabet="abc déf漢🙂", min_size=1), min_size=1, max_size=4), st.sampled_from(STYLES))
def test_tokens_are_told_without_parsing(texts: list[str], style: Any) -> None:
    assert SKIMMER.count(b"".join(event(text, style=style) for text in texts)) == len(texts)


@given(st.text(min_size=1), st.text(min_size=1))
@example("a\\", "b")
@example('say "a"', "b")
def test_a_token_is_told_by_the_one_before_it(first: str, second: str) -> None:
    if SKIMMER.count(event(first)) != 1:
        return
    before, behind = SKIMMER.mould(event(first))
    data = event(second)
    if data.startswith(before) and data.endswith(behind) and len(data) > len(before) + len(behind):
        written = data[len(before) : len(data) - len(behind)]
        if is_plain(written):
            assert json.loads(b'"' + written + b'"') == second
            assert Follower(OPENAI).feed(data)[0].text == second


@given(st.binary(max_size=12))
@example(b"\\\\n\\n")
@example("ünï — 漢字 🙂".encode())
@example("a\u2028b".encode())
def test_a_plain_text_is_whole_in_any_json(written: bytes) -> None:
    if is_plain(written) or is_plain_text(written):
        text = json.loads(b'"' + written + b'"')
        assert json.loads(b'{"t":"%b"}' % written) == {"t": text}
        assert len(f"{written.decode()}.".splitlines()) == 1  # no reader cuts it


def test_what_could_end_a_text_is_not_plain() -> None:
    for byte in range(256):
        text = bytes([byte])
        is_usual = 32 <= byte < 127 and text not in b'"\\'
        assert bool(is_plain(text)) == is_plain_text(text) == is_usual
    for text in (b"\\", b"a\\", b"\\u000a", b"\\\\\\", b'\\"\\', b"\xff", b"\xe2\x80\xa8"):
        assert not is_plain(text) and not is_plain_text(text)
    assert is_plain(b'say \\"a\\"\\n') and is_plain_text("漢字 🙂".encode())


def test_what_is_plain_alone_is_what_needs_no_escape():
    assert [code for code in range(256) if is_plain(bytes([code]))] == sorted(PLAIN)


def test_a_mould_is_taken_of_json_alone():
    assert is_sound(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
    assert not is_sound(b'data: {"choices":[{"delta":{"content":"word\\"}}]}\n\n') and not is_sound(b"data: none\n\n")
