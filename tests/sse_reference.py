"""The event-stream interpretation of the HTML standard, slowly and word for word, to compare with.

It decodes the whole text at once and then follows the standard, whose sentences stand above the lines
that say the same (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
It shares nothing with `flaskstream.sse`. What the standard does not speak of is marked "ours".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Read(NamedTuple):
    """What one event says, once it was read."""

    data: str
    event: str = "message"
    id: str | None = None  # ours: the id that this event itself carries
    retry: int | None = None  # ours: likewise
    last_event_id: str = ""


@dataclass
class EventSource:
    """What is left after a stream was interpreted."""

    last_event_id: str = ""
    retry: int | None = None
    events: list[Read] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)  # ours
    ignored: list[str] = field(default_factory=list)  # ours
    truncated: bool = False  # ours: something of an event was pending at the end of the file


def interpret(stream: bytes, last_event_id: str = "") -> EventSource:
    """Return what a browser would have made of the whole stream."""
    source = EventSource(last_event_id)

    # "Streams must be decoded using the UTF-8 decode algorithm." (It strips one leading byte-order mark.)
    text = stream.decode("utf-8", "replace")
    if text.startswith("\ufeff"):
        text = text[1:]

    # "When a stream is parsed, a data buffer, an event type buffer, and a last event ID buffer must be
    # associated with it. They must be initialized to the empty string."
    data_buffer = ""
    event_type_buffer = ""
    last_event_id_buffer = last_event_id  # not empty after a reconnect: browsers keep it
    id_of_block: str | None = None  # ours
    retry_of_block: int | None = None  # ours
    pending = False  # ours

    lines, rest = cut_into_lines(text)
    for line in lines:
        # "If the line is empty (a blank line): Dispatch the event, as defined below."
        if line == "":
            # "Set the last event ID string of the event source to the value of the last event ID buffer."
            source.last_event_id = last_event_id_buffer
            # "If the data buffer is an empty string, set the data buffer and the event type buffer to the
            # empty string and return."
            if data_buffer != "":
                # "If the data buffer's last character is a U+000A LINE FEED (LF) character, then remove the
                # last character from the data buffer."
                if data_buffer[-1] == "\n":
                    data_buffer = data_buffer[:-1]
                # "Initialize event's type attribute to "message" ..."
                name = "message"
                # "If the event type buffer has a value other than the empty string, change the type of the
                # newly created event to equal the value of the event type buffer."
                if event_type_buffer != "":
                    name = event_type_buffer
                source.events.append(Read(data_buffer, name, id_of_block, retry_of_block, source.last_event_id))
            # "Set the data buffer and the event type buffer to the empty string."
            data_buffer = ""
            event_type_buffer = ""
            id_of_block = retry_of_block = None
            pending = False
            continue

        # "If the line starts with a U+003A COLON character (:): Ignore the line."
        if line[0] == ":":
            source.comments.append(line[2:] if line[1:2] == " " else line[1:])
            continue

        # "If the line contains a U+003A COLON character (:): Collect the characters on the line before the
        # first U+003A COLON character (:), and let field be that string. Collect the characters on the line
        # after the first U+003A COLON character (:), and let value be that string. If value starts with a
        # U+0020 SPACE character, remove it from value."
        if ":" in line:
            colon = line.index(":")
            name_of_field, value = line[:colon], line[colon + 1 :]
            if value[:1] == " ":
                value = value[1:]
        # "Otherwise, the string is not empty but does not contain a U+003A COLON character (:): Process the
        # field using the steps described below, using the whole line as the field name, and the empty string
        # as the field value."
        else:
            name_of_field, value = line, ""

        # "Field names must be compared literally, with no case folding performed."
        # "Set the event type buffer to the field value."
        if name_of_field == "event":
            event_type_buffer = value
            pending = True
        # "Append the field value to the data buffer, then append a single U+000A LINE FEED (LF) character to
        # the data buffer."
        elif name_of_field == "data":
            data_buffer = data_buffer + value + "\n"
            pending = True
        # "If the field value does not contain U+0000 NULL, then set the last event ID buffer to the field
        # value. Otherwise, ignore the field."
        elif name_of_field == "id":
            if "\0" not in value:
                last_event_id_buffer = id_of_block = value
                pending = True
        # "If the field value consists of only ASCII digits, then interpret the field value as an integer in
        # base ten, and set the event stream's reconnection time to that integer. Otherwise, ignore the field."
        elif name_of_field == "retry":
            # Ours: a wait of more than 18 digits is none that was meant.
            if value != "" and all(character in "0123456789" for character in value) and len(value) <= 18:
                source.retry = retry_of_block = int(value)
        # "Otherwise: The field is ignored."
        else:
            source.ignored.append(line)

    # "Once the end of the file is reached, any pending data must be discarded. (If the file ends in the middle
    # of an event, before the final empty line, the incomplete event is not dispatched.)"
    source.truncated = pending or (rest != "" and rest[0] != ":")
    return source


def cut_into_lines(text: str) -> tuple[list[str], str]:
    """Return the lines that have an end, and what follows the last of them.

    "... a U+000D CARRIAGE RETURN U+000A LINE FEED (CRLF) character pair, a single U+000A LINE FEED (LF)
    character not preceded by a U+000D CARRIAGE RETURN (CR) character, and a single U+000D CARRIAGE RETURN (CR)
    character not followed by a U+000A LINE FEED (LF) character being the ways in which a line can end."
    """
    lines = []
    line = ""
    position = 0
    while position < len(text):
        if text[position : position + 2] == "\r\n":
            lines.append(line)
            line = ""
            position += 2
        elif text[position] in "\r\n":
            lines.append(line)
            line = ""
            position += 1
        else:
            line += text[position]
            position += 1
    return lines, line
