"""Answers of OpenAI-compatible servers, as a table: what of each is text, and how it ends.

Those of other dialects are in `dialect_vectors`.

Each was seen in a bug report, or is the next of its kind. The tests cut every stream everywhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from flaskstream.dialects import Usage

WHOLE = ""


@dataclass(frozen=True)
class Vector:
    """One answer.

    Attributes:
        stream: its bytes, to the end of the connection.
        text: of the answer, up to its end or its failure.
        error: the code of ours with which the token stream fails; `WHOLE`: it does not.
        cut: the faithful stream fails too: the upstream has not said itself that it ended.
        dropped: so many bytes at the end are half an event, and are never passed on.
        dialect: its key in `DIALECTS`.
        usage: that is told.
        tools: the calls of tools: the id, the name, the arguments of each.
    """

    name: str
    stream: bytes
    text: str
    error: str = WHOLE
    cut: bool = False
    dropped: int = 0
    dialect: str = "openai"
    usage: Usage | None = None
    tools: tuple[tuple[str, str, str], ...] = ()


def event(value: object) -> bytes:
    """One event; text stays as it is, so that a cut may fall into a character."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def choice(content: object = None, finish: str | None = None, **more: object) -> dict[str, object]:
    return {"index": 0, "delta": {"content": content}, "finish_reason": finish, **more}


def says(*choices: object, **more: object) -> bytes:
    return event({"choices": list(choices), **more})


def said(content: object, **more: object) -> bytes:
    return says(choice(content), **more)


A, B = said("a"), said("b")
STOP = says(choice(finish="stop"))
USAGE = event({"choices": [], "usage": {"total_tokens": 3}})
THREE = Usage(total_tokens=3)
DONE = b"data: [DONE]\n\n"
ODD = "\u4f60 \U0001f30d \x85 \u2028 \u2029 \ufeff"  # none of these ends a line

ENDS = [
    Vector("done_alone_ends_an_answer", A + DONE, "a"),
    Vector("finish_reason_alone_ends_an_answer", A + STOP, "a"),
    Vector("usage_after_finish_reason_is_still_read", A + STOP + USAGE, "a", usage=THREE),
    Vector("finish_reason_usage_and_done", A + B + STOP + USAGE + DONE, "ab", usage=THREE),
    Vector("finish_reason_with_the_last_token", A + says(choice("b", "length")), "ab"),
    Vector("no_terminal_mark_is_a_cut", A + B, "ab", "upstream_truncated", cut=True),
    Vector("nothing_at_all_is_a_cut", b"", "", "upstream_truncated", cut=True),
    Vector("only_comments_is_a_cut", b": PROCESSING\n\n:\n\n", "", "upstream_truncated", cut=True),
    Vector("half_an_event_is_dropped", A + B[:-20], "a", "upstream_truncated", cut=True, dropped=len(B) - 20),
    Vector("an_event_without_its_blank_line_counts_if_it_is_whole", A + STOP[:-2], "a"),
    Vector("done_with_one_newline", A + DONE[:-1], "a"),
    Vector("done_without_a_newline", A + DONE[:-2], "a"),
    Vector("done_without_the_space", A + b"data:[DONE]\n\n", "a"),
    Vector("done_with_spaces_around", A + b"data:   [DONE] \n\n", "a"),
    Vector("done_is_not_text", said("[DONE]") + A, "[DONE]a", "upstream_truncated", cut=True),
    Vector("half_a_usage_after_the_end_is_dropped", A + STOP + USAGE[:-9], "a", dropped=len(USAGE) - 9),
    Vector("null_finish_reasons_end_nothing", says(choice("a", None)), "a", "upstream_truncated", cut=True),
    Vector(
        "an_error_page_behind_a_cut_is_no_event",
        A + b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html\r\n\r\n<html>x</html>",
        "a",
        "upstream_truncated",
        cut=True,
        dropped=14,
    ),
]

CHOICES = [
    Vector(
        "azure_sends_empty_choices_first_and_last",
        event({"choices": [], "prompt_filter_results": []})
        + says({"delta": {"role": "assistant"}})
        + says({"delta": {"content": None}})
        + says({"delta": {"content": "a"}})
        + says({"finish_reason": "stop"})
        + USAGE
        + DONE,
        "a",
        usage=THREE,
    ),
    Vector("the_text_is_that_of_the_first_choice", says(choice("a"), choice("x", index=1)) + B + DONE, "ab"),
    Vector("a_choice_of_its_own_event", A + says(choice("x", index=1)) + DONE, "a"),
    Vector(
        "one_finished_choice_of_two_is_a_cut",
        says(choice("a"), choice("x", index=1)) + STOP,
        "a",
        "upstream_truncated",
        cut=True,
    ),
    Vector(
        "both_choices_finished_are_whole",
        says(choice("a"), choice("x", index=1)) + STOP + says(choice(finish="stop", index=1)),
        "a",
    ),
    Vector("no_choices", event({"id": "1"}) + event({"choices": None}) + A + DONE, "a"),
]

ERRORS = [
    Vector("error_object_and_done", event({"error": {"message": "quota"}}) + DONE, "", "upstream_error"),
    Vector("error_beside_empty_choices", A + says(error={"code": 502}) + DONE, "a", "upstream_error"),
    Vector(
        "error_event_after_a_text",
        A + b"event: error\n" + event({"type": "error", "error": {"type": "overloaded_error"}}),
        "a",
        "upstream_error",
    ),
    Vector("error_as_a_plain_string", event({"error": "plain string"}) + DONE, "", "upstream_error"),
    Vector("error_event_of_plain_text", A + b"event: error\ndata: overloaded\n\n" + DONE, "a", "upstream_error"),
    Vector("error_event_that_says_done", A + b"event: error\n" + DONE, "a", "upstream_error"),
    Vector("vllm_object", A + event({"object": "error", "message": "x"}) + DONE, "a", "upstream_error"),
    Vector("finish_reason_error", A + says(choice("", "error")) + DONE, "a", "upstream_error"),
    Vector("error_within_a_choice", A + says({"error": {"code": 502}}) + DONE, "a", "upstream_error"),
    Vector("error_without_done", A + event({"error": {"message": "x"}}), "a", "upstream_error"),
    Vector("no_text_after_an_error", A + event({"error": {"code": 1}}) + B + STOP + DONE, "a", "upstream_error"),
    Vector("an_error_that_is_null_is_none", said("a", error=None) + DONE, "a"),
]


def calls(*fragments: dict[str, object]) -> bytes:
    return b"".join(says({"delta": {"content": None, "tool_calls": [fragment]}}) for fragment in fragments)


def call(index: int | None, identity: str | None, arguments: str, name: str | None = None) -> dict[str, object]:
    """A part of a call; what is `None` is left out."""
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    told = {"index": index, "id": identity, "function": function}
    return {key: value for key, value in told.items() if value is not None}


TWO_CALLS = (("A", "x", '{"x":1}'), ("B", "y", '{"y":2}'))
CALLED = says(choice(finish="tool_calls")) + DONE

TOOLS = [
    Vector(
        "calls_are_told_apart_by_their_index",
        calls(call(0, "A", "", "x"), call(1, "B", "", "y"), call(0, None, '{"x":1}'), call(1, None, '{"y":2}'))
        + CALLED,
        "",
        tools=TWO_CALLS,
    ),
    Vector(
        "without_an_index_a_new_id_opens_a_call",
        calls(call(None, "A", "", "x"), call(None, None, '{"x":1}'), call(None, "B", "", "y"))
        + calls(call(None, None, '{"y"'), call(None, "B", ":2}"))
        + CALLED,
        "",
        tools=TWO_CALLS,
    ),
    Vector(
        "the_same_index_with_another_id_is_another_call",
        calls(call(0, "A", '{"x":', "x"), call(0, "A", "1}", "x"), call(0, "B", "", "y"), call(0, None, '{"y":2}'))
        + CALLED,
        "",
        tools=TWO_CALLS,
    ),
    Vector(
        "the_same_index_goes_back_to_a_call_by_its_id",
        calls(call(0, "A", "", "x"), call(0, "B", "", "y"), call(0, "A", '{"x":1}'), call(0, "B", '{"y":2}')) + CALLED,
        "",
        tools=TWO_CALLS,
    ),
    Vector(
        "the_same_id_at_another_index_is_another_call",
        calls(call(0, "A", "1", "x"), call(1, "A", "2", "y")) + CALLED,
        "",
        tools=(("A", "x", "1"), ("A", "y", "2")),
    ),
    Vector(
        "an_id_that_comes_late_belongs_to_the_call_that_has_none",
        calls(call(0, None, "", "x"), call(0, "A", '{"x":1}'), call(1, "B", '{"y":2}', "y")) + CALLED,
        "",
        tools=TWO_CALLS,
    ),
    Vector("text_beside_a_call", A + calls(call(0, "A", "{}", "x")) + CALLED, "a", tools=(("A", "x", "{}"),)),
    Vector(
        "calls_of_wrong_types",
        says({"delta": {"tool_calls": {}}}) + calls({"index": "0", "id": 5, "function": "x"}) + A + DONE,
        "a",
        tools=(("", "", ""),),
    ),
]

FORMS = [
    Vector("crlf", (A + B + DONE).replace(b"\n", b"\r\n"), "ab"),
    Vector("cr", (A + B + DONE).replace(b"\n", b"\r"), "ab"),
    Vector("byte_order_mark", b"\xef\xbb\xbf" + A + DONE, "a"),
    Vector("comments_between", b": PROCESSING\n\n" + A + b":cost=1\n:tok=2\n" + B + b":\n\n" + DONE, "ab"),
    Vector("names_ids_and_retry", b"retry: 10\nid: 1\nevent: chunk\n" + A + b"id\n" + B + DONE, "ab"),
    Vector("line_ends_that_are_none", said(ODD) + DONE, ODD),
    Vector("spaces_only", said(" ") + said("\n\n") + said("  x") + DONE, " \n\n  x"),
    Vector("pretty_printed", b'data: {"choices":\ndata: [{"delta":\ndata: {"content": "a"}}]}\n\n' + DONE, "a"),
    Vector("invalid_utf8_is_replaced", A.replace(b'"a"', b'"\xff"') + DONE, "\ufffd"),
]

MALFORMED = [
    Vector("stray_html", A + b"<html>oops</html>\n" + B + DONE, "ab"),
    Vector("stray_html_block", A + b"<html>\n\n<body>\n\n" + B + DONE, "ab"),
    Vector("two_objects_in_one_event", b'data: {"a":1}\ndata: {"b":2}\n\n' + A + DONE, "a"),
    Vector("no_json", b"data: hello\n\n" + A + DONE, "a"),
    Vector("json_that_is_no_object", event(5) + event("x") + event([A.decode()]) + event(None) + A + DONE, "a"),
    Vector("nested_too_deep", b"data: " + b"[" * 2000 + b"\n\n" + A + DONE, "a"),
    Vector(
        "every_field_of_a_wrong_type",
        event({"choices": 5})
        + event({"choices": {"index": 0}})
        + says(5, None, "x")
        + says({"index": [], "delta": []})
        + says({"index": "0", "delta": {"content": ["x"]}})
        + says({"delta": "x"}, object=["error"], type={"error": 1})
        + A
        + DONE,
        "a",
    ),
]

VECTORS = [*ENDS, *CHOICES, *ERRORS, *TOOLS, *FORMS, *MALFORMED]
