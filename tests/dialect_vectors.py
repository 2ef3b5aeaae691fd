"""Answers in the other dialects, as tables: one for each entry of `DIALECTS`. The tests cut every stream everywhere."""

from __future__ import annotations

import json
from typing import Any

import answer_vectors
from answer_vectors import DONE, ODD, Vector, event

from flaskstream.dialects import Usage

CUT = "upstream_truncated"
FAILED = "upstream_error"


def named(name: str, **fields: Any) -> bytes:
    """An event of an API that names its events twice."""
    return f"event: {name}\n".encode() + event({"type": name, **fields})


def nameless(stream: bytes) -> bytes:
    """What gateways make of it that pass lines of data only."""
    lines = [line for line in stream.splitlines(keepends=True) if not line.startswith(b"event:")]
    return b"".join(lines)


def vectors(dialect: str, *rows: Vector) -> list[Vector]:
    return [Vector(**{**vars(row), "name": f"{dialect}_{row.name}", "dialect": dialect}) for row in rows]


# Anthropic


def delta(index: int = 0, **fields: Any) -> bytes:
    return named("content_block_delta", index=index, delta=fields)


def words(text: str) -> bytes:
    return delta(type="text_delta", text=text)


def piece(index: int, arguments: str) -> bytes:
    return delta(index, type="input_json_delta", partial_json=arguments)


def tool(index: int, identity: str, name: str, **more: Any) -> bytes:
    block = {"type": "tool_use", "id": identity, "name": name, "input": {}, **more}
    return named("content_block_start", index=index, content_block=block)


MESSAGE_START = named("message_start", message={"id": "m", "content": [], "usage": {"input_tokens": 5}})
BLOCK_START = named("content_block_start", index=0, content_block={"type": "text", "text": ""})
BLOCK_STOP = named("content_block_stop", index=0)
PING = named("ping")
STOP_REASON = named("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})
MESSAGE_STOP = named("message_stop")
OPENED = MESSAGE_START + BLOCK_START
ENDED = BLOCK_STOP + STOP_REASON + MESSAGE_STOP
MESSAGE = OPENED + PING + words("a") + words("b") + ENDED
OVERLOADED = named("error", error={"type": "overloaded_error", "message": "x"})
COST = Usage(5, 2)

ANTHROPIC = vectors(
    "anthropic",
    Vector("message", MESSAGE, "ab", usage=COST),
    Vector("names_only_in_the_data", nameless(MESSAGE), "ab", usage=COST),
    Vector("names_only_in_the_data_of_an_error", nameless(words("a") + OVERLOADED), "a", FAILED),
    Vector("stop_reason_then_the_end_of_the_bytes", OPENED + words("a") + BLOCK_STOP + STOP_REASON, "a", usage=COST),
    Vector("message_stop_alone", OPENED + words("a") + MESSAGE_STOP, "a", usage=Usage(5)),
    Vector("message_stop_without_its_blank_line", OPENED + words("a") + MESSAGE_STOP[:-1], "a", usage=Usage(5)),
    Vector("done_of_a_gateway", OPENED + words("a") + DONE, "a", usage=Usage(5)),
    Vector("end_of_a_block_is_no_end", OPENED + words("a") + BLOCK_STOP, "a", CUT, cut=True, usage=Usage(5)),
    Vector("no_end", OPENED + words("a") + PING, "a", CUT, cut=True, usage=Usage(5)),
    Vector("error_after_a_text", OPENED + words("a") + OVERLOADED, "a", FAILED, usage=Usage(5)),
    Vector("error_and_message_stop", OVERLOADED + MESSAGE_STOP, "", FAILED),
    Vector("error_without_json", b"event: error\ndata: overloaded\n\n", "", FAILED),
    Vector("error_as_a_plain_string", event({"error": "plain string"}), "", FAILED),
    Vector("what_is_new_says_nothing", named("news", delta={"text": "x"}) + words("a") + MESSAGE_STOP, "a"),
    Vector(
        "thinking_is_no_text",
        OPENED
        + delta(type="thinking_delta", thinking="hm")
        + delta(type="signature_delta", signature="s")
        + words("a")
        + ENDED,
        "a",
        usage=COST,
    ),
    Vector(
        "two_calls_of_tools",
        tool(1, "A", "x")
        + tool(2, "B", "y")
        + piece(1, '{"x"')
        + piece(2, '{"y":')
        + piece(1, ":1}")
        + piece(2, "2}")
        # and the arguments of one that comes whole
        + tool(3, "C", "z", input={"z": 3})
        + MESSAGE_STOP,
        "",
        tools=(("A", "x", '{"x":1}'), ("B", "y", '{"y":2}'), ("C", "z", '{"z":3}')),
    ),
    Vector("ping_without_json", b"event: ping\ndata: .\n\n" + words("a") + MESSAGE_STOP, "a"),
    Vector("line_ends_that_are_none", words(ODD) + MESSAGE_STOP, ODD),
    Vector("crlf", MESSAGE.replace(b"\n", b"\r\n"), "ab", usage=COST),
    Vector(
        "fields_of_wrong_types",
        named("message_start", message=5)
        + named("content_block_start", index="0", content_block=[])
        + named("content_block_delta", delta="x")
        + delta(type="text_delta", text=["x"])
        + named("message_delta", delta=None, usage=5)
        + event([1])
        + words("a")
        + MESSAGE_STOP,
        "a",
    ),
)

# OpenAI's responses


def output(text: str) -> bytes:
    return named("response.output_text.delta", output_index=0, delta=text)


CREATED = named("response.created", response={"status": "in_progress", "error": None, "usage": None})
COMPLETED = named("response.completed", response={"usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}})
SEVEN = Usage(5, 2, 7)
FUNCTION = {"type": "function_call", "id": "fc", "call_id": "A", "name": "x", "arguments": ""}

RESPONSES = vectors(
    "responses",
    Vector("completed", CREATED + output("a") + output("b") + COMPLETED, "ab", usage=SEVEN),
    Vector("names_only_in_the_data", nameless(CREATED + output("a") + COMPLETED), "a", usage=SEVEN),
    Vector("done_alone", output("a") + DONE, "a"),
    Vector("incomplete_is_an_end", output("a") + named("response.incomplete", response={"usage": None}), "a"),
    Vector(
        "failed",
        output("a") + named("response.failed", response={"error": {"code": "server_error", "message": "x"}}),
        "a",
        FAILED,
    ),
    Vector("failed_without_a_reason", output("a") + named("response.failed", response=None), "a", FAILED),
    Vector("error", output("a") + named("error", code="server_error", message="x"), "a", FAILED),
    Vector("error_object", event({"error": {"message": "x"}}) + DONE, "", FAILED),
    Vector("done_texts_are_not_said_twice", output("a") + named("response.output_text.done", text="a") + DONE, "a"),
    Vector("no_end", CREATED + output("a"), "a", CUT, cut=True),
    Vector("done_items_are_no_end", output("a") + named("response.output_item.done"), "a", CUT, cut=True),
    Vector(
        "call_of_a_tool",
        named("response.output_item.added", output_index=1, item=FUNCTION)
        + named("response.function_call_arguments.delta", output_index=1, delta='{"x"')
        + named("response.function_call_arguments.delta", output_index=1, delta=":1}")
        + named("response.function_call_arguments.done", output_index=1, arguments='{"x":1}')
        + COMPLETED,
        "",
        usage=SEVEN,
        tools=(("A", "x", '{"x":1}'),),
    ),
    Vector(
        "fields_of_wrong_types",
        named("response.output_text.delta", delta=5)
        + named("response.output_item.added", item="x")
        + b"data: x\n\n"
        + output("a")
        + named("response.completed", response=5),
        "a",
    ),
)

# Ollama


def line(**fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def spoken(content: Any, **more: Any) -> bytes:
    return line(model="m", message={"role": "assistant", "content": content}, done=False, **more)


LAST = line(model="m", message={"content": ""}, done=True, done_reason="stop", prompt_eval_count=5, eval_count=2)

OLLAMA = vectors(
    "ollama",
    Vector("done", spoken("a") + spoken("b") + LAST, "ab", usage=COST),
    Vector("done_with_the_last_token", spoken("a") + line(message={"content": "b"}, done=True), "ab", usage=Usage()),
    Vector("done_without_its_line_end", spoken("a") + LAST[:-1], "a", usage=COST),
    Vector("no_end", spoken("a") + spoken("b"), "ab", CUT, cut=True),
    Vector("nothing_at_all", b"", "", CUT, cut=True),
    Vector("half_a_line_is_dropped", spoken("a") + LAST[:-9], "a", CUT, cut=True, dropped=len(LAST) - 9),
    Vector("half_a_token_is_dropped", spoken("a") + b'{"message', "a", CUT, cut=True, dropped=9),
    Vector("error", spoken("a") + line(error="x"), "a", FAILED),
    Vector("error_without_its_line_end", spoken("a") + line(error="x")[:-1], "a", FAILED),
    Vector("no_text_after_an_error", line(error={"message": "x"}) + spoken("b") + LAST, "", FAILED),
    Vector("done_is_true_and_nothing_else", spoken("a") + line(done="true"), "a", CUT, cut=True),
    Vector("empty_lines_and_crlf", b"\n" + spoken("a")[:-1] + b"\r\n\r\n" + LAST, "a", usage=COST),
    Vector("line_ends_that_are_none", spoken(ODD) + LAST, ODD, usage=COST),
    Vector("thinking_is_no_text", line(message={"content": "", "thinking": "hm"}) + LAST, "", usage=COST),
    Vector("null_content", spoken(None) + spoken("a") + LAST, "a", usage=COST),
    Vector("no_json", b"<html>\n[]\n5\n" + spoken("a") + line(message=5) + LAST, "a", usage=COST),
    Vector(
        "calls_of_tools_come_whole",
        line(message={"tool_calls": [{"function": {"name": "x", "arguments": {"x": 1}}}]})
        + line(message={"tool_calls": [{"function": {"name": "y", "arguments": {"y": 2}}}]})
        + LAST,
        "",
        usage=COST,
        tools=(("", "x", '{"x":1}'), ("", "y", '{"y":2}')),
    ),
)

# Text and nothing else

PLAIN = vectors(
    "plain",
    Vector("the_end_of_the_body_is_an_end", b"data: a\n\ndata:  b\n\n", "a b"),
    Vector("done", b"data: a\n\n" + DONE, "a"),
    Vector("done_as_ours", b'retry: 9\ndata: a\n\nevent: done\ndata: {"events":1}\n\n', "a"),
    Vector("lines_of_one_event", b"data: a\ndata: b\ndata:\n\n", "a\nb\n"),
    Vector("names_and_ids", b"id: 1\nevent: token\ndata: a\n\nevent: ping\ndata: x\n\n:hb\n\n", "a"),
    Vector("error", b"data: a\n\nevent: error\ndata: x\n\n", "a", FAILED),
    Vector("error_of_ours", b'data: a\n\nevent: error\ndata: {"code":"internal"}\n\n', "a", FAILED),
    Vector("json_is_text", event({"error": "x"}), '{"error": "x"}'),
    Vector("half_an_event_is_a_cut", b"data: a\n\ndata: b\n", "a", CUT, cut=True, dropped=8),
    Vector("half_a_line_is_a_cut", b"data: a\n\ndat", "a", CUT, cut=True, dropped=3),
    Vector("nothing_at_all", b"", ""),
    Vector("line_ends_that_are_none", f"data: {ODD}\n\n".encode(), ODD),
)

TEXT = vectors(
    "text",
    Vector("lines", b"a\n\nb c\n", "a\n\nb c\n"),
    Vector("a_last_line_without_its_end", b"a\nb", "a\nb"),
    Vector("crlf", b"a\r\nb\r\n", "a\nb\n"),
    Vector("nothing_at_all", b"", ""),
    Vector("what_looks_like_something_else", b"data: a\n[DONE]\n{\n", "data: a\n[DONE]\n{\n"),
    Vector("line_ends_that_are_none", f"{ODD}\n".encode(), ODD + "\n"),
    Vector("invalid_utf8_is_replaced", b"\xff\n", "\ufffd\n"),
)

TABLE = {
    "openai": answer_vectors.VECTORS,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "ollama": OLLAMA,
    "plain": PLAIN,
    "text": TEXT,
}
"""The vectors of each dialect."""
