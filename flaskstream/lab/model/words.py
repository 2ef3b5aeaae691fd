"""What the embedded model says: always the same words, and always the same calls of tools. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

_SENTENCES = (
    ("Each", " word", " leaves", " as", " soon", " as", " said", "."),
    (" 東京", " hears", " it", ",", " then", " Zürich", " does", "."),
    (" Nobody", " waits", " for", " the", " last", " one", " 🚀", "!"),
    ("\n\n", "It", "'s", ' "live', '",', " not", " kept", "."),
)
_TOKENS = tuple(token for sentence in _SENTENCES for token in sentence)

TOOL = "look_up"
"""The tool that is called, whatever tools the client has offered."""

_PLACES = ("東京", "Zürich", 'the "Kreis 5"')  # what tears when bytes are cut, and what has to be escaped
_FRAGMENT_CHARACTERS = 9


@dataclass(frozen=True)
class Piece:
    """What is said in one interval.

    Args:
        kind: "text"; "call", which begins a call of a tool; or "arguments", a part of that call's JSON.
        text: the token, or the part.
        call: which call it belongs to, from 0.
    """

    kind: str
    text: str
    call: int = 0


@dataclass(frozen=True)
class Call:
    """A call of a tool.

    Args:
        name: of the tool.
        fragments: its arguments as they are streamed, parts of a JSON object.
    """

    name: str
    fragments: tuple[str, ...]

    @property
    def arguments(self) -> str:
        """The whole JSON object."""
        return "".join(self.fragments)


def tokens(count: int) -> tuple[str, ...]:
    """So many tokens, with the leading spaces and the punctuation of a language model's."""
    texts = [_TOKENS[n % len(_TOKENS)] for n in range(count)]
    for n in range(len(_TOKENS), count, len(_TOKENS)):
        texts[n] = " " + texts[n]
    return tuple(texts)


def call_of_tool(n: int) -> Call:
    """The call with this number, from 0; no two of an answer have the same arguments."""
    arguments = json.dumps({"place": _PLACES[n % len(_PLACES)], "day": n}, ensure_ascii=False)
    starts = range(0, len(arguments), _FRAGMENT_CHARACTERS)
    return Call(TOOL, tuple(arguments[start : start + _FRAGMENT_CHARACTERS] for start in starts))


def pieces(count: int, calls: tuple[Call, ...]) -> tuple[Piece, ...]:
    """All that is said in an answer, in order: its tokens, then its calls of tools."""
    said = [Piece("text", token) for token in tokens(count)]
    for n, call in enumerate(calls):
        said.append(Piece("call", call.name, n))
        said += [Piece("arguments", fragment, n) for fragment in call.fragments]
    return tuple(said)
