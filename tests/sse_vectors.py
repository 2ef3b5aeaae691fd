"""What event streams mean, as a table. Each group stands under the sentence that justifies it.

Sentences in quotes are the HTML standard's
(https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
`Vector.pieces` is how the network may cut the stream where that is the point; the tests cut it everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sse_reference import Read

from flaskstream.sse import MAX_EVENT_BYTES


class Outcome(NamedTuple):
    """Everything that can be seen of a decoder once its stream has ended."""

    events: tuple[Read, ...] = ()
    comments: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    last_event_id: str = ""
    retry: int | None = None
    truncated: bool = False
    too_large: bool = False


@dataclass(frozen=True)
class Vector:
    name: str
    pieces: tuple[bytes, ...]
    outcome: Outcome
    mode: str
    max_event_bytes: int

    @property
    def stream(self) -> bytes:
        return b"".join(self.pieces)


def vector(
    name: str,
    stream: bytes | list[bytes],
    *events: Read,
    mode: str = "strict",
    max_event_bytes: int = MAX_EVENT_BYTES,
    comments: tuple[str, ...] = (),
    ignored: tuple[str, ...] = (),
    last_event_id: str = "",
    retry: int | None = None,
    truncated: bool = False,
    too_large: bool = False,
) -> Vector:
    pieces = (stream,) if isinstance(stream, bytes) else tuple(stream)
    outcome = Outcome(events, comments, ignored, last_event_id, retry, truncated, too_large)
    return Vector(name, pieces, outcome, mode, max_event_bytes)


# "Lines must be separated by either a U+000D CARRIAGE RETURN U+000A LINE FEED (CRLF) character pair, a single
# U+000A LINE FEED (LF) character, or a single U+000D CARRIAGE RETURN (CR) character."
LINE_ENDS = [
    vector("lf_ends_a_line", b"data: 1\n\n", Read("1")),
    vector("lone_cr_ends_a_line", b"data: hello\r\rdata: x\rdata: y\r\r", Read("hello"), Read("x\ny")),
    vector("crlf_ends_a_line", b"event: m\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", Read("1", "m"), Read("2")),
    vector("blank_line_in_its_own_piece_closes_the_event", [b"data: a\n", b"\n"], Read("a")),
    vector(
        "crlf_cut_in_two_is_one_line_end_and_the_lf_after_it_is_a_blank_line",
        [b"data: one\r", b"\n", b"\ndata: two\r\n\r\n"],
        Read("one"),
        Read("two"),
    ),
    vector(
        "any_two_line_ends_in_a_row_close_an_event",
        b"data: 1\r\ndata: 2\n\ndata: 3\n\rdata: 4\r\n\ndata: 5\r\n\r" + b"data: 6\n\n",
        Read("1\n2"),
        Read("3"),
        Read("4"),
        Read("5"),
        Read("6"),
    ),
    vector("cr_then_crlf_closes_an_event", b"data: 1\r\r\ndata: 2\r\r\n", Read("1"), Read("2")),
    vector("lf_then_crlf_closes_an_event", b"data: 1\n\r\ndata: 2\n\r\n", Read("1"), Read("2")),
    vector("cr_as_the_last_byte_closes_an_event", b"data: 1\n\r", Read("1")),
    vector("blank_lines_alone_are_no_events", b"\n\r\n\r\r\n\n\n"),
    vector(
        "blank_lines_before_and_between_events_mean_nothing",
        b"\n\ndata: 1\n\n\n\r\rdata: 2\n\n\n",
        Read("1"),
        Read("2"),
    ),
    vector(
        "what_unicode_calls_line_ends_is_data",
        'data: {"t":"a\x85b\u2028c\u2029d\x0be\x0cf\x1cg\x1dh\x1ei"}\n\n'.encode(),
        Read('{"t":"a\x85b\u2028c\u2029d\x0be\x0cf\x1cg\x1dh\x1ei"}'),
    ),
]

# "Streams must be decoded using the UTF-8 decode algorithm."
UTF8 = [
    vector("characters_cut_by_the_network_stay_whole", "data: \u4f60\U0001f30d\n\n".encode(), Read("\u4f60\U0001f30d")),
    vector("invalid_bytes_become_replacement_characters", b"data: \xff\xfe ok\n\n", Read("\ufffd\ufffd ok")),
    vector("half_a_character_before_a_line_end_is_one_replacement", b"data: \xe4\xbd\n\n", Read("\ufffd")),
    vector("half_a_surrogate_pair_is_three_replacements", b"data: \xed\xa0\x80\n\n", Read("\ufffd" * 3)),
    vector("half_a_character_at_the_end_is_cut_off", b"data: 1\n\ndata: \xf0\x9f", Read("1"), truncated=True),
    vector(
        "names_and_ids_are_text_as_well",
        "event: \u4f60\nid: \U0001f30d\ndata: 1\n\n".encode(),
        Read("1", "\u4f60", "\U0001f30d", None, "\U0001f30d"),
        last_event_id="\U0001f30d",
    ),
    vector("nul_in_data_is_data", b"data: a\0b\n\n", Read("a\0b")),
]

# "The UTF-8 decode algorithm strips one leading UTF-8 Byte Order Mark (BOM), if any."
BYTE_ORDER_MARKS = [
    vector(
        "bom_in_pieces_is_stripped_and_a_later_one_is_data",
        [b"", b"\xef", b"\xbb\xbfda", b"ta: 1\n\ndata: \xef\xbb\xbf2\n\n"],
        Read("1"),
        Read("\ufeff2"),
    ),
    vector(
        "second_bom_belongs_to_the_first_field_name",
        b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n",
        Read("2"),
        ignored=("\ufeffdata: 1",),
    ),
    vector("bom_on_a_later_line_belongs_to_the_field_name", b"\n\xef\xbb\xbfdata: 1\n\n", ignored=("\ufeffdata: 1",)),
    vector("bom_before_a_comment", b"\xef\xbb\xbf: hi\ndata: 1\n\n", Read("1"), comments=("hi",)),
    vector("bom_before_a_blank_line", b"\xef\xbb\xbf\ndata: 1\n\n", Read("1")),
    vector("bom_alone_is_an_empty_stream", b"\xef\xbb\xbf"),
    vector("half_a_bom_is_not_stripped", b"\xef\xbbdata: 1\n\ndata: 2\n\n", Read("2"), ignored=("\ufffddata: 1",)),
    vector("half_a_bom_alone_is_a_broken_line", b"\xef\xbb", truncated=True),
]

# "If value starts with a U+0020 SPACE character, remove it from value."
SPACES = [
    vector(
        "space_after_the_colon_is_optional",
        b'data:{"a":1}\n\nevent:x\nid:7\nretry:5\ndata:[DONE]\n\n',
        Read('{"a":1}'),
        Read("[DONE]", "x", "7", 5, "7"),
        last_event_id="7",
        retry=5,
    ),
    vector("only_one_space_is_removed", b"data:   two\n\n", Read("  two")),
    vector("tab_is_not_a_space", b"data:\tq\n\n", Read("\tq")),
    vector("no_break_space_is_not_a_space", "data:\u00a0q\n\n".encode(), Read("\u00a0q")),
    vector("space_at_the_end_is_data", b"data: a \n\n", Read("a ")),
    vector("space_alone_is_removed_and_a_second_one_is_data", b"data: \n\ndata:  \n\n", Read(""), Read(" ")),
    vector(
        "one_space_is_removed_from_every_field",
        b"event:  e\nid:  i\ndata: d\n\n",
        Read("d", " e", " i", None, " i"),
        last_event_id=" i",
    ),
]

# "If the line contains a U+003A COLON character (:): Collect the characters on the line before the first U+003A
# COLON character (:), and let field be that string." "Otherwise, the string is not empty but does not contain a
# U+003A COLON character (:): Process the field [...] using the whole line as the field name, and the empty string
# as the field value." "Field names must be compared literally, with no case folding performed."
FIELDS = [
    vector("later_colons_are_part_of_the_value", b"data: a:b: c\n\n", Read("a:b: c")),
    vector("field_without_colon_has_an_empty_value", b"data\n\nevent: x\nevent\ndata\ndata\n\n", Read(""), Read("\n")),
    vector(
        "names_of_fields_are_case_sensitive",
        b"Data: 1\nDATA: 2\ndata: 3\n\n",
        Read("3"),
        ignored=("Data: 1", "DATA: 2"),
    ),
    vector(
        "space_around_a_field_name_makes_it_another",
        b" data: 1\ndata : 2\ndata: 3\n\n",
        Read("3"),
        ignored=(" data: 1", "data : 2"),
    ),
    vector("unknown_fields_are_ignored", b"foo: bar\nfoo\ndata: 1\n\n", Read("1"), ignored=("foo: bar", "foo")),
    vector(
        "line_of_a_page_is_ignored_and_reported",
        b"<html>oops</html>\ndata: 1\n\n",
        Read("1"),
        ignored=("<html>oops</html>",),
    ),
]

# "Append the field value to the data buffer, then append a single U+000A LINE FEED (LF) character to the data
# buffer." "If the data buffer's last character is a U+000A LINE FEED (LF) character, then remove the last character
# from the data buffer."
DATA = [
    vector("lines_of_data_are_joined_with_lf", b'data: {\ndata: "a":\ndata: 1}\n\n', Read('{\n"a":\n1}')),
    vector("empty_lines_of_data_count", b"data:\ndata:\ndata: z\n\n", Read("\n\nz")),
    vector("empty_line_of_data_at_the_end_counts", b"data: z\ndata:\n\n", Read("z\n")),
    vector(
        "lines_of_data_need_not_be_neighbours",
        b"data: 1\nevent: x\n: c\ndata: 2\n\n",
        Read("1\n2", "x"),
        comments=("c",),
    ),
    vector(
        "two_json_lines_in_one_event_are_not_pulled_apart",
        b'data: {"a":1}\ndata: {"b":2}\n\ndata: {"c":3}\n\n',
        Read('{"a":1}\n{"b":2}'),
        Read('{"c":3}'),
    ),
]

# "If the data buffer is an empty string, set the data buffer and the event type buffer to the empty string and
# return." "If the event type buffer has a value other than the empty string, change the type of the newly created
# event to equal the value of the event type buffer."
NAMES = [
    vector("the_last_name_counts", b"event: a\nevent: b\ndata: 1\n\n", Read("1", "b")),
    vector("empty_name_is_message", b"event: a\nevent:\ndata: 1\n\n", Read("1")),
    vector("name_without_data_is_no_event_and_is_forgotten", b"event: a\n\ndata: 1\n\n", Read("1")),
    vector("name_does_not_outlive_its_event", b"event: a\ndata: 1\n\ndata: 2\n\n", Read("1", "a"), Read("2")),
    vector(
        "named_events_of_a_model_keep_their_names_and_ids",
        b'event: message_start\nid: 3\ndata: {"type":"message_start"}\n\nevent: ping\ndata: {"type":"ping"}\n\n',
        Read('{"type":"message_start"}', "message_start", "3", None, "3"),
        Read('{"type":"ping"}', "ping", None, None, "3"),
        last_event_id="3",
    ),
]

# "If the field value does not contain U+0000 NULL, then set the last event ID buffer to the field value. Otherwise,
# ignore the field." "Set the last event ID string of the event source to the value of the last event ID buffer. The
# buffer does not get reset, so the last event ID string of the event source remains set to this value until the next
# time it is set by the server."
IDS = [
    vector(
        "id_stays_until_another_one_and_a_nul_is_no_id_and_an_empty_one_resets",
        b"id: 1\ndata: a\n\ndata: b\n\nid: x\x00y\ndata: c\n\nid\ndata: d\n\n",
        Read("a", id="1", last_event_id="1"),
        Read("b", last_event_id="1"),
        Read("c", last_event_id="1"),
        Read("d", id="", last_event_id=""),
    ),
    vector(
        "id_without_data_counts_for_the_stream",
        b"id: 5\n\ndata: 1\n\n",
        Read("1", last_event_id="5"),
        last_event_id="5",
    ),
    vector(
        "the_last_id_of_an_event_counts",
        b"id: 1\ndata: a\nid: 2\n\n",
        Read("a", id="2", last_event_id="2"),
        last_event_id="2",
    ),
    vector(
        "nul_id_does_not_undo_the_id_before_it",
        b"id: 1\nid: \0\ndata: a\n\n",
        Read("a", id="1", last_event_id="1"),
        last_event_id="1",
    ),
    vector(
        "id_of_an_event_that_never_closed_is_not_the_last_id",
        b"id: 1\ndata: a\n\nid: 2\ndata: b\n",
        Read("a", id="1", last_event_id="1"),
        last_event_id="1",
        truncated=True,
    ),
]

# "If the field value consists of only ASCII digits, then interpret the field value as an integer in base ten, and
# set the event stream's reconnection time to that integer. Otherwise, ignore the field."
RETRY = [
    vector("retry_is_digits_only", b"data: new\nretry: 10x\nretry: 0050\n\n", Read("new", retry=50), retry=50),
    vector("retry_without_data_counts_for_the_stream", b"retry: 10\n\ndata: 1\n\n", Read("1"), retry=10),
    vector("retry_counts_before_its_event_is_whole", b"retry: 10\n", retry=10),
    vector("retry_of_zero_is_a_retry", b"retry: 0\ndata: 1\n\n", Read("1", retry=0), retry=0),
    vector(
        "signs_points_and_spaces_are_no_digits",
        b"retry: +1\nretry: -1\nretry: 1.5\nretry:  1\nretry: 1 \nretry: 1_0\n\n",
    ),
    vector("empty_retry_is_none", b"retry: 7\nretry:\nretry\n\n", retry=7),
    vector("digits_of_other_scripts_are_no_digits", "retry: \u0661\nretry: \u00b2\n\n".encode()),
    vector(
        "retry_of_eighteen_digits_is_the_longest",
        b"retry: " + b"9" * 18 + b"\nretry: 1" + b"0" * 18 + b"\n\n",
        retry=10**18 - 1,
    ),
]

# "If the line starts with a U+003A COLON character (:): Ignore the line."
COMMENTS = [
    vector(
        "comments_are_never_data_and_hide_none",
        b": OPENROUTER PROCESSING\n\n:\n\n: x\ndata: 1\n\n:cost=1\n:tok=2\ndata: [DONE]\n\n",
        Read("1"),
        Read("[DONE]"),
        comments=("OPENROUTER PROCESSING", "", "x", "cost=1", "tok=2"),
    ),
    vector("comment_that_looks_like_a_field_is_a_comment", b":data: 1\n::\n\n", comments=("data: 1", ":")),
    vector("one_space_is_removed_from_a_comment", b":  two\n", comments=(" two",)),
    vector("comment_between_the_lines_of_an_event", b"data: 1\n: hb\ndata: 2\n\n", Read("1\n2"), comments=("hb",)),
    vector(
        "bare_comment_lines_need_no_blank_line",
        b": hb\n: hb\r: hb\r\ndata: 1\n\n",
        Read("1"),
        comments=("hb", "hb", "hb"),
    ),
]

# The examples of the standard.
EXAMPLES = [
    vector("stock_prices", b"data: YHOO\ndata: +2\ndata: 10\n\n", Read("YHOO\n+2\n10")),
    vector(
        "four_blocks_a_comment_an_id_and_its_reset",
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        Read("first event", id="1", last_event_id="1"),
        Read("second event", id=""),
        Read(" third event"),
        comments=("test stream",),
    ),
    vector(
        "two_events_and_a_third_that_never_closed", b"data\n\ndata\ndata\n\ndata:", Read(""), Read("\n"), truncated=True
    ),
    vector("two_identical_events", b"data:test\n\ndata: test\n\n", Read("test"), Read("test")),
]

# "Once the end of the file is reached, any pending data must be discarded. (If the file ends in the middle of an
# event, before the final empty line, the incomplete event is not dispatched.)"
STRICT_ENDS = [
    vector("nothing_at_all_is_a_whole_stream", b""),
    vector("unfinished_line_is_cut_off", b"data: 1\n\ndata: 2", Read("1"), truncated=True),
    vector("event_without_its_blank_line_is_cut_off", b"data: 1\n\ndata: 2\n", Read("1"), truncated=True),
    vector("event_without_its_blank_line_is_cut_off_after_cr", b"data: 1\r\rdata: 2\r", Read("1"), truncated=True),
    vector("name_alone_is_cut_off", b"event: x\n", truncated=True),
    vector("id_alone_is_cut_off", b"id: x\n", truncated=True),
    vector("part_of_a_field_name_is_cut_off", b"da", truncated=True),
    vector("part_of_a_retry_is_no_retry", b"retry: 5", truncated=True),
    vector("comment_at_the_end_cuts_nothing", b"data: 1\n\n: hb\n", Read("1"), comments=("hb",)),
    vector("part_of_a_comment_cuts_nothing", b"data: 1\n\n: h", Read("1")),
    vector("whole_json_is_cut_off_all_the_same", b'data: {"a":1}\n', truncated=True),
    vector("terminal_mark_is_cut_off_all_the_same", b"data: [DONE]\n", truncated=True),
]

# Ours, mode "llm": a last event without its blank line counts if it is whole: its data is JSON that cannot be a
# part of longer JSON, or the terminal mark.
LLM_ENDS = [
    vector("whole_json_without_any_newline_counts", b'data: {"a":1}', Read('{"a":1}'), mode="llm"),
    vector("whole_json_with_one_newline_counts", b'data:{"a":1}\r\n', Read('{"a":1}'), mode="llm"),
    vector(
        "terminal_mark_without_any_newline_counts", b"data: 1\n\ndata: [DONE]", Read("1"), Read("[DONE]"), mode="llm"
    ),
    vector("terminal_mark_with_one_newline_counts", b"data: [DONE]\r", Read("[DONE]"), mode="llm"),
    vector(
        "json_over_several_lines_counts_when_its_last_line_is_whole",
        b'data: {\ndata: "a": 1\ndata: }',
        Read('{\n"a": 1\n}'),
        mode="llm",
    ),
    vector("json_that_goes_on_is_cut_off", b'data: 1\n\ndata: {"a":', Read("1"), mode="llm", truncated=True),
    vector("part_of_a_terminal_mark_is_cut_off", b"data: [DONE", mode="llm", truncated=True),
    vector("number_may_be_a_part_of_a_longer_one", b"data: 12", mode="llm", truncated=True),
    vector("fraction_may_be_a_part_of_a_longer_one", b"data: -1.5\n", mode="llm", truncated=True),
    vector("true_is_whole", b"data: true", Read("true"), mode="llm"),
    vector("null_is_whole", b"data: null", Read("null"), mode="llm"),
    vector("part_of_true_is_cut_off", b"data: tru", mode="llm", truncated=True),
    vector("string_is_whole", b'data: "a"', Read('"a"'), mode="llm"),
    vector("plain_text_is_never_known_to_be_whole", b"data: hello\n", mode="llm", truncated=True),
    vector("half_a_character_is_cut_off", b'data: "\xf0\x9f', mode="llm", truncated=True),
    vector(
        "unclosed_event_keeps_its_name_id_and_retry",
        b"event: done\nid: 7\nretry: 5\ndata: {}",
        Read("{}", "done", "7", 5, "7"),
        mode="llm",
        last_event_id="7",
        retry=5,
    ),
    vector("half_an_id_is_no_id", b"data: {}\nid: 7", Read("{}"), mode="llm"),
    vector("id_of_an_event_that_is_cut_off_is_not_the_last_id", b'id: 7\ndata: {"a', mode="llm", truncated=True),
    vector("name_alone_is_cut_off_in_llm_mode", b"event: x\nid: 7\n", mode="llm", truncated=True),
    vector("field_name_alone_is_cut_off_in_llm_mode", b"data", mode="llm", truncated=True),
    vector("part_of_a_comment_cuts_nothing_in_llm_mode", b"data: 1\n\n: h", Read("1"), mode="llm"),
    vector("closed_events_are_not_looked_at", b"data: hel\n\ndata: 12\n\n", Read("hel"), Read("12"), mode="llm"),
]

# Ours: one event is held up to a limit in bytes; the error falls at the same byte wherever the network cuts.
LIMITS = [
    vector("event_at_the_limit", b"data: 0123456789\n\n", Read("0123456789"), max_event_bytes=16),
    vector(
        "line_one_byte_over_the_limit", b"data: 0123456789x\n\n", max_event_bytes=16, truncated=True, too_large=True
    ),
    vector("line_without_end", b"data: " + b"x" * 30, max_event_bytes=16, truncated=True, too_large=True),
    vector("lines_without_blank_line", b"data: x\n" * 10, max_event_bytes=16, truncated=True, too_large=True),
    vector(
        "empty_lines_of_data_without_blank_line", b"data\n" * 30, max_event_bytes=16, truncated=True, too_large=True
    ),
    vector("name_over_the_limit", b"event: 0123456789\n", max_event_bytes=16, truncated=True, too_large=True),
    vector("id_over_the_limit", b"data: 1\nid: 0123456789abc\n", max_event_bytes=16, truncated=True, too_large=True),
    vector("comment_over_the_limit", b": 0123456789abcde\n", max_event_bytes=16, truncated=True, too_large=True),
    vector(
        "events_before_the_one_that_is_too_large_are_not_lost",
        b"data: 1\n\nid: 7\ndata: 2\n\ndata: " + b"x" * 30 + b"\n\ndata: 3\n\n",
        Read("1"),
        Read("2", id="7", last_event_id="7"),
        max_event_bytes=16,
        last_event_id="7",
        truncated=True,
        too_large=True,
    ),
    vector(
        "limit_is_for_one_event_not_for_the_stream",
        b"data: 0123456\n\n" * 3,
        *[Read("0123456")] * 3,
        max_event_bytes=16,
    ),
    vector(
        "lines_that_are_not_held_do_not_count",
        b": hb\nfoo: bar\nretry: 5\nid: \0\n" * 5 + b"data: 1\n\n",
        Read("1", retry=5),
        max_event_bytes=16,
        comments=("hb",) * 5,
        ignored=("foo: bar",) * 5,
        retry=5,
    ),
]

VECTORS = [
    *LINE_ENDS,
    *UTF8,
    *BYTE_ORDER_MARKS,
    *SPACES,
    *FIELDS,
    *DATA,
    *NAMES,
    *IDS,
    *RETRY,
    *COMMENTS,
    *EXAMPLES,
    *STRICT_ENDS,
    *LLM_ENDS,
    *LIMITS,
]
