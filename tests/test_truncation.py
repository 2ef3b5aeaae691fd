"""A cut stream never looks whole: every framing, cut at every byte of the connection, through real gunicorn."""

from __future__ import annotations

import gzip
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator

import pytest
from raw_upstream import FINAL_CHUNK, RawUpstream, answer, chunk, head
from relay_client import chat, complete, end, error_code, text

from flaskstream.dialects import OPENAI
from flaskstream.doctor.measure import Recording
from flaskstream.errors import UpstreamTruncated
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.model.answer import answer as model_answer
from flaskstream.lab.model.script import Script
from flaskstream.relay.answers import blocks, tokens
from flaskstream.sse import Decoder

SCRIPT = Script(tokens=1)
BODY = model_answer(SCRIPT).body
EVENTS = re.findall(rb".+?\n\n", BODY, re.DOTALL)
ZIPPED = gzip.compress(BODY)
END = EVENTS[-2].rstrip()
"""The end is told when this object is whole; the line end behind it says nothing."""

ANSWERS = {
    "chunked": answer("chunked", *EVENTS),
    "length": answer("length", *EVENTS),
    "close": answer("close", *EVENTS),
    "http10": answer("http10", *EVENTS),
    "close_gzip": head("close", "Content-Encoding: gzip") + ZIPPED,
    "chunked_gzip": head("chunked", "Content-Encoding: gzip") + chunk(ZIPPED) + FINAL_CHUNK,
}


@pytest.fixture(scope="module")
def server(raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    """The fixed mode with its usual patience: here no upstream is silent, it waits for its turn among many."""
    with GunicornProcess({"upstream": raw_upstream.url}) as process:
        process.wait_until_it_answers()
        yield process


def cuts(framing: str) -> Iterator[tuple[bytes, bool]]:
    """Yield every cut of an answer behind its head, and whether the end of the answer is told in it."""
    whole = ANSWERS[framing]
    body_at = whole.index(b"\r\n\r\n") + 4
    for length in range(body_at, len(whole)):
        yield whole[:length], END in read_whatever_came(framing, whole[body_at:length])


def read_whatever_came(framing: str, body: bytes) -> bytes:
    """Decompress what is there; the chunks need no reading: each is an event, or all."""
    if "gzip" not in framing:
        return body
    return zlib.decompressobj(31).decompress(body[body.find(ZIPPED[:2]) :] if ZIPPED[:2] in body else b"")


@pytest.mark.parametrize(
    ("framing", "how"), [*((framing, "fin") for framing in ANSWERS), ("chunked", "reset"), ("close", "reset")]
)
def test_a_stream_of_ours_ends_with_done_only_if_the_end_was_told(
    server: Any, raw_upstream: RawUpstream, framing: str, how: str
) -> None:
    def check(recording: Recording, told: bool) -> None:
        if told:
            assert (text(recording), end(recording).event) == (SCRIPT.text, "done")
        elif recording.status == 200:
            assert SCRIPT.text.startswith(text(recording))
            assert error_code(recording) == "upstream_truncated"
        else:
            assert recording.status == 502
            assert b'"upstream_truncated"' in recording.body

    check_every_cut(server, raw_upstream, framing, how, chat, check)


@pytest.mark.parametrize("framing", ANSWERS)
def test_the_upstream_s_own_client_sees_a_cut_connection_unless_the_end_was_told(
    server: Any, raw_upstream: RawUpstream, framing: str
) -> None:
    def check(recording: Recording, told: bool) -> None:
        assert not recording.cut_inside_event
        if told:
            assert recording.ended == "final_chunk"
            assert recording.body in (BODY, BODY[: -len(EVENTS[-1])])
        elif recording.status == 200:
            assert not recording.framing_complete
            *theirs, ours = re.findall(rb".+?\n\n", recording.body, re.DOTALL)
            assert theirs == EVENTS[: len(theirs)]
            assert b'"upstream_truncated"' in ours
            assert [OPENAI.read(event).error for event in Decoder().feed(ours)] == ["server_error"]
        else:
            assert recording.status == 502
            assert b'"upstream_truncated"' in recording.body

    check_every_cut(server, raw_upstream, framing, "fin", complete, check)


def check_every_cut(
    server: Any,
    upstream: RawUpstream,
    framing: str,
    how: str,
    ask: Callable[[Any, str], Recording],
    check: Callable[[Recording, bool], None],
) -> None:
    every_cut = list(cuts(framing))
    models = [upstream.plays(cut, end=how) for cut, _ in every_cut]
    with ThreadPoolExecutor(32) as pool:  # most of the time goes by before the second try
        recordings = list(pool.map(lambda model: ask(server, model), models))
    for (_, told), recording in zip(every_cut, recordings):
        check(recording, told)
    assert {told for _, told in every_cut} == {False, True}


def test_every_prefix_of_the_bytes_alone_is_cut() -> None:
    for length in range(len(BODY) + 1):
        for follow in (tokens, blocks):
            try:
                list(follow([BODY[:length]], OPENAI))
            except UpstreamTruncated:
                told = False
            else:
                told = True
            assert told == (END in BODY[:length])


def test_a_whole_json_answer_is_whole_or_an_error(server: Any, raw_upstream: RawUpstream) -> None:
    body = b'{"choices": [{"message": {"content": "a"}}]}'
    for length in range(len(body) + 1):
        cut = head("close", content_type="application/json") + body[:length]
        recording = complete(server, raw_upstream.plays(cut, end="fin"), stream=False)
        if length < len(body):
            assert recording.status == 502
            assert b'"upstream_truncated"' in recording.body
        else:
            assert (recording.status, recording.body) == (200, body)
