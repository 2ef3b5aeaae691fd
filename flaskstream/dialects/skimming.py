"""Tell by a look that bytes are tokens and nothing else. Pure.

A piece of an answer is nearly always whole events, each with some text of the only answer in it. To see that costs less
than to parse it, and less still once one was seen: the next one differs from it in its text alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Skimmer:
    """What a token looks like in one dialect.

    Attributes:
        marks: what may stand before its text; one of them does, once in each event.
        count: returns how many events there are in these bytes if it is sure that they are whole, each a token of the
            only answer, and nothing else; 0 if it is not. It is called between two events.
    """

    marks: tuple[bytes, ...]
    count: Callable[[bytes], int]

    def mould(self, event: bytes) -> tuple[bytes, bytes]:
        """Return what stands before the text of a token, and behind it: other tokens differ in their text alone."""
        start = max(event.find(mark) + len(mark) for mark in self.marks if mark in event)
        end = event.index(b'"', start)
        while event[:end].endswith(b"\\"):
            end = event.index(b'"', end + 1)
        return event[:start], event[end:]


PLAIN = bytes(code for code in range(32, 127) if chr(code) not in '"\\')
"""What may stand in a JSON string as it is, of ASCII."""


def is_sound(event: bytes) -> bool:
    """Tell whether what an event says is JSON: of another one that differs in a plain text alone that is so, too."""
    try:
        json.loads(event[event.index(b"{") :])
    except ValueError:
        return False
    return True


_ASCII = rb"[ !#-\[\]-~]"
is_plain = re.compile(_ASCII + rb'*(?:\\["\\/bfnrt]' + _ASCII + rb"*)*").fullmatch
"""Tells whether a text, as JSON writes it, is ASCII that any other JSON may hold as it is: nothing in it can end it."""


def is_plain_text(written: bytes) -> bool:
    """Tell the same of a text in any language."""
    try:
        text = written.decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() and '"' not in text and "\\" not in text
