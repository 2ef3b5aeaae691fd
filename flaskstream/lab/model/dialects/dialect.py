"""What a dialect of the embedded model is. Pure."""

from __future__ import annotations

import abc
import json
import zlib
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping

from flaskstream.lab.model.script import Script
from flaskstream.lab.model.words import Piece

CREATED = 1_700_000_000
"""Seconds since 1970 in every answer: a fixed time, so that the same script is the same bytes."""

PROMPT_TOKENS = 8
"""What the usage says of the prompt, which nobody counted."""


def to_json(value: object) -> bytes:
    """JSON as the APIs write it: no spaces, and UTF-8 as it is, so that a cut may fall inside a character."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate of the client's: JSON's own escape of it


def number_of(script: Script) -> str:
    """Eight digits that tell the answers of one model from those of another: for ids."""
    return f"{zlib.crc32(script.name.encode()):08x}"


class Voice(abc.ABC):
    """Says one answer as an event stream, with `\\n` for line ends. Every method gives whole events."""

    def __init__(self, script: Script) -> None:
        self.script = script

    @abc.abstractmethod
    def start(self) -> Iterator[bytes]:
        """What comes before the first word."""

    @abc.abstractmethod
    def say(self, piece: Piece) -> Iterator[bytes]:
        """The next token, or the next part of a call."""

    @abc.abstractmethod
    def end(self) -> Iterator[bytes]:
        """What ends a whole answer."""

    @abc.abstractmethod
    def failure(self) -> Iterator[bytes]:
        """The error that takes the place of the rest."""


@dataclass(frozen=True)
class Dialect:
    """One model API, as a server speaks it.

    Attributes:
        name: as the reading side, `flaskstream.dialects`, calls it.
        path: where its requests come, with or without `/v1` before it.
        voice: says an answer as a stream.
        whole: the answer as one JSON object.
        error: an error as a JSON object, given the HTTP status, the message and the name of the wrong field.
        stream_error_status: the status whose error is sent in place of an answer when the HTTP status is a 200.
        id_header: names the header that carries the id of the request.
        needed: the fields of a request beside `model`, with the type of each and the words for it.
    """

    name: str
    path: str
    voice: Callable[[Script], Voice]
    whole: Callable[[Script], dict[str, Any]]
    error: Callable[[int, str, str | None], dict[str, Any]]
    stream_error_status: int
    id_header: str
    needed: Mapping[str, tuple[type, str]]

    def scripted_error(self, script: Script) -> dict[str, Any]:
        """The error that the script asks for, as a JSON object."""
        status = script.status if script.status != 200 else self.stream_error_status
        return self.error(status, f"The script asked for this error ({status}).", None)
