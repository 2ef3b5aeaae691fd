"""What the embedded model says in each dialect: written out for a short answer, and read by the kit for all others."""

import json
from dataclasses import replace

import pytest

from flaskstream.dialects import DIALECTS as READERS
from flaskstream.dialects import ToolCalls
from flaskstream.lab.model.answer import answer
from flaskstream.lab.model.dialects import ANTHROPIC, DIALECTS, OPENAI
from flaskstream.lab.model.script import Script
from flaskstream.sse import Decoder

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
MESSAGE = {"id": "msg_16af98cc", "type": "message", "role": "assistant", "model": "tick"}


def events(script, dialect):
    return [(event.event, event.json()) for event in Decoder().feed(answer(script, dialect=dialect).body)]


def readings(script, dialect):
    decoded = Decoder().feed(answer(script, dialect=dialect).body)
    return [READERS[dialect.name].read(event) for event in decoded]


def whole(script, dialect):
    return json.loads(answer(script, stream=False, dialect=dialect).body)


def calls_of(script):
    return [(call.name, json.loads(call.arguments)) for call in script.calls]


@EACH_DIALECT
@pytest.mark.parametrize("tool_calls", [0, 1, 3])
@pytest.mark.parametrize("tokens", [0, 5])
def test_the_kit_reads_what_the_script_says(dialect, tokens, tool_calls):
    script = Script(tokens=tokens, tool_calls=tool_calls, usage=True)
    read, calls, usage = readings(script, dialect), ToolCalls(), None
    for reading in read:
        assert not reading.malformed and reading.error is None
        usage = reading.usage if usage is None else usage.updated(reading.usage or usage)
        for fragment in reading.tools:
            calls.add(fragment)
    assert [reading.text for reading in read if reading.text] == list(script.token_texts)
    assert [(call.name, json.loads(call.arguments)) for call in calls.calls] == calls_of(script)
    assert len({call.id for call in calls.calls}) == tool_calls
    assert (usage.input_tokens, usage.output_tokens) == (8, script.length)
    assert read[-1].last and any(reading.finished for reading in read)


@EACH_DIALECT
def test_an_error_comes_in_the_place_of_what_is_left(dialect):
    script = Script(tokens=2, tool_calls=1, error_after=4)
    read = readings(script, dialect)
    assert "".join(reading.text for reading in read) == script.text
    assert sum(len(reading.tools) for reading in read) == 2
    assert any(reading.error for reading in read)
    assert not any(reading.finished for reading in read)


def test_a_message_is_that_of_anthropic_to_the_byte():
    assert answer(Script(tokens=2), dialect=ANTHROPIC).body.decode().split("\n\n") == [
        'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_16af98cc","type":"message",'
        '"role":"assistant","model":"tick","content":[],"stop_reason":null,"stop_sequence":null,'
        '"usage":{"input_tokens":8,"output_tokens":1}}}',
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        '"content_block":{"type":"text","text":""}}',
        'event: ping\ndata: {"type":"ping"}',
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"Each"}}',
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":" word"}}',
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}',
        'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
        '"usage":{"output_tokens":2}}',
        'event: message_stop\ndata: {"type":"message_stop"}',
        "",
    ]


@pytest.mark.parametrize("tokens", [0, 1])
def test_every_block_of_a_message_begins_and_ends_before_the_next(tokens):
    script = Script(tokens=tokens, tool_calls=2)
    blocks = [(name, data["index"]) for name, data in events(script, ANTHROPIC) if name.startswith("content_block_st")]
    count = tokens + 2
    assert blocks == [(f"content_block_{what}", n) for n in range(count) for what in ("start", "stop")]


def test_a_message_stops_for_its_tools():
    ended = [data for name, data in events(Script(tokens=1, tool_calls=1), ANTHROPIC) if name == "message_delta"]
    assert ended[0]["delta"]["stop_reason"] == "tool_use"


def test_an_overloaded_message_ends_with_its_error():
    name, data = events(Script(tokens=2, error_after=1), ANTHROPIC)[-1]
    assert (name, data["type"], data["error"]["type"]) == ("error", "error", "overloaded_error")


def test_calls_of_chat_completions_come_by_index_with_their_name_first():
    script = Script(tokens=0, tool_calls=2, interval_ms=100)
    body = answer(script).body
    chunks = [json.loads(event.data)["choices"][0] for event in Decoder().feed(body)[:-1]]
    role, *said, end = chunks
    assert role["delta"] == {"role": "assistant", "content": None}
    assert end == {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    parts = [chunk["delta"]["tool_calls"][0] for chunk in said]
    assert [part["index"] for part in parts] == sorted(part["index"] for part in parts)
    named = [part for part in parts if "id" in part]
    assert [(part["type"], part["function"]["arguments"]) for part in named] == [("function", "")] * 2
    assert len(parts) == script.length
    assert answer(script).steps[-1].after == pytest.approx(script.length * 0.1)


def test_a_whole_chat_completion_has_the_calls():
    script = Script(tokens=2, tool_calls=2)
    choice = whole(script, OPENAI)["choices"][0]
    functions = [call["function"] for call in choice["message"]["tool_calls"]]
    assert choice["message"]["content"] == script.text
    assert choice["finish_reason"] == "tool_calls"
    assert [(each["name"], json.loads(each["arguments"])) for each in functions] == calls_of(script)
    assert whole(replace(script, tokens=0), OPENAI)["choices"][0]["message"]["content"] is None


def test_a_whole_message_has_its_blocks_and_its_usage():
    script = Script(tokens=2, tool_calls=2)
    message = whole(script, ANTHROPIC)
    text, *tools = message.pop("content")
    assert text == {"type": "text", "text": script.text}
    assert [(tool["type"], tool["name"], tool["input"]) for tool in tools] == [
        ("tool_use", name, arguments) for name, arguments in calls_of(script)
    ]
    usage = {"input_tokens": 8, "output_tokens": script.length}
    assert message == {**MESSAGE, "stop_reason": "tool_use", "stop_sequence": None, "usage": usage}
    assert whole(Script(tokens=0), ANTHROPIC)["content"] == []


@pytest.mark.parametrize(
    ("status", "kind", "retry"),
    [
        (400, "invalid_request_error", []),
        (401, "authentication_error", []),
        (418, "invalid_request_error", []),
        (429, "rate_limit_error", [("Retry-After", "7")]),
        (500, "api_error", []),
        (503, "api_error", [("Retry-After", "7")]),
        (529, "overloaded_error", [("Retry-After", "7")]),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_an_error_status_of_anthropic_has_its_type(status, kind, retry, stream):
    planned = answer(Script(status=status, retry_after=7), stream, ANTHROPIC)
    error = json.loads(planned.body)
    assert (error["type"], error["error"]["type"]) == ("error", kind)
    assert [header for header in planned.headers if header[0] == "Retry-After"] == retry
    assert planned.status_line.split()[1] == str(status)
