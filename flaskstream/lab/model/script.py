"""What the embedded model is told to do: the `model` field of a request is the script, in every dialect.

    "tick?tokens=24&interval_ms=50&framing=close"

A name, then optionally `?` and a query string of the fields of `Script`. So a script passes through
every relay and every official SDK unchanged. A name alone (`gpt-4o-mini`) is the script of defaults.

Nothing here is random or reads a clock: the same script is the same bytes on each run, so a test
may compare a whole body, and a Content-Length is exact before the first token is said.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from typing import Any, NoReturn
from urllib.parse import unquote_plus, urlencode

from flaskstream.lab.model.words import Call, Piece, call_of_tool, pieces, tokens

FRAMINGS = ("chunked", "close", "http10", "length")
CODINGS = ("identity", "gzip", "gzip-unflushed", "deflate", "auto")
LINE_ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}

_HOUR_MS = 3_600_000
_ANY_BYTE = 1_000_000_000

_NUMBERS = {  # the lowest and the highest value
    "tokens": (0, 100_000),
    "tool_calls": (0, 16),
    "interval_ms": (0, _HOUR_MS),
    "slow_headers_ms": (0, _HOUR_MS),
    "silence_after": (0, 101_000),
    "silence_ms": (0, _HOUR_MS),
    "reset_at": (0, _ANY_BYTE),
    "close_at": (0, _ANY_BYTE),
    "error_after": (0, 101_000),
    "status": (200, 599),
    "retry_after": (0, 86_400),
    "piece_bytes": (0, _ANY_BYTE),
    "hold_open_ms": (0, _HOUR_MS),
}
_CHOICES = {"framing": FRAMINGS, "coding": CODINGS, "line_end": tuple(LINE_ENDS)}
_FLAGS = ("no_terminator", "no_done", "comments", "usage")
_PRINTABLE = re.compile("[ -~]*")
_NUMBER = re.compile("[0-9]{1,12}")


@dataclass(frozen=True)
class Script:
    """One answer of the model: its pace, its bytes, and what goes wrong in it; valid from birth.

    The clock of an answer starts when its head was written; token n (from 1) is due n intervals later. The parts of a
    call count as tokens.
    Body bytes are counted after the content coding and before the framing.

    Args:
        name: the model's name, as its answer repeats it.
        tokens: how many tokens of text it says.
        tool_calls: so many calls of tools follow the text: the name of each, then its arguments in parts.
        interval_ms: milliseconds before each token.
        framing: how the body ends. `chunked`; `close`: HTTP/1.1 with `Connection: close` and no framing;
            `http10`: the same with an HTTP/1.0 status line; `length`: Content-Length.
        coding: the Content-Encoding, offered by the client or not. `gzip` and `deflate` are flushed after
            each event, `gzip-unflushed` only at the end. `auto`: `gzip-unflushed` if the client offers gzip, else
            `identity`.
        slow_headers_ms: milliseconds of silence before the status line.
        silence_after: after this many tokens the model falls silent,
        silence_ms: for this many milliseconds; 0: until the client leaves.
        reset_at: the connection is reset (RST) after exactly so many body bytes.
        close_at: the connection is closed (FIN) after exactly so many body bytes, in a chunk or not.
        no_terminator: everything is said, then the connection closes without the final chunk.
        no_done: the last event, `data: [DONE]` or `message_stop`, is left out.
        error_after: in the place of the token after this many comes an error object, and the answer ends there.
        status: 200, or the 4xx or 5xx of an error in JSON.
        retry_after: seconds, in the Retry-After of a 429, 503 or 529.
        content_type: instead of the right Content-Type; "": no such header.
        line_end: of the event stream: `lf`, `crlf` or `cr`.
        comments: a comment comes before the first event.
        usage: a chunk with the usage comes before `[DONE]`; Anthropic tells it always.
        piece_bytes: the body goes out in pieces of so many bytes, each its own write and its own chunk; 0: event
            by event.
        hold_open_ms: milliseconds between the last body byte and the end of the body.

    Raises:
        ValueError: a value, or values together, that make no sense; names what was expected and what came.
    """

    name: str = "tick"
    tokens: int = 24
    tool_calls: int = 0
    interval_ms: int = 50
    framing: str = "chunked"
    coding: str = "identity"
    slow_headers_ms: int = 0
    silence_after: int | None = None
    silence_ms: int = 0
    reset_at: int | None = None
    close_at: int | None = None
    no_terminator: bool = False
    no_done: bool = False
    error_after: int | None = None
    status: int = 200
    retry_after: int = 1
    content_type: str | None = None
    line_end: str = "lf"
    comments: bool = False
    usage: bool = False
    piece_bytes: int = 0
    hold_open_ms: int = 0

    def __post_init__(self) -> None:
        if not self.name or "?" in self.name or not self.name.isprintable():
            raise ValueError(f'name: expected printable text without "?", got {self.name!r}')
        for key in fields(self):
            value = getattr(self, key.name)
            if key.name != "name" and not (value is None and key.default is None):
                _check(key.name, value)
        _check_together(self)

    @classmethod
    def parse(cls, model: str) -> Script:
        """Read a script from the `model` field of a request.

        Raises:
            ValueError: an unknown or repeated key, or a value that its key does not take.
        """
        name, mark, query = model.partition("?")
        values: dict[str, Any] = {}
        for pair in query.split("&") if mark and query else ():
            key, _, value = pair.partition("=")
            if key in values:
                raise ValueError(f"{key}: expected once, got it again in {model!r}")
            values[key] = _read(key, unquote_plus(value))
        return cls(name=name, **values)

    @property
    def model(self) -> str:
        """The script as the `model` field of a request; `parse` reads it back."""
        told = [(key.name, getattr(self, key.name)) for key in fields(self) if key.name != "name"]
        changed = [(key, value) for key, value in told if value != getattr(Script, key)]
        query = urlencode([(key, int(value) if key in _FLAGS else value) for key, value in changed])
        return f"{self.name}?{query}" if query else self.name

    @property
    def token_texts(self) -> tuple[str, ...]:
        """The tokens of the text."""
        return tokens(self.tokens)

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.token_texts)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of tools."""
        return tuple(map(call_of_tool, range(self.tool_calls)))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All that is said, one for each interval."""
        return pieces(self.tokens, self.calls)

    @property
    def length(self) -> int:
        """How many tokens that is: those of the text, and the parts of the calls."""
        return self.tokens + sum(1 + len(call.fragments) for call in self.calls)

    @property
    def silence(self) -> float:
        """How long the silence lasts, in seconds; `math.inf` when only the client's leaving ends it."""
        if self.silence_after is None:
            return 0.0
        return self.silence_ms / 1000 or math.inf

    @property
    def seconds(self) -> float:
        """How long after its head the last token is said and the silence, if any, is over."""
        return self.length * self.interval_ms / 1000 + self.silence

    def due(self, n: int) -> float:
        """When token n (from 1) is due, in seconds after the head was written."""
        silent = self.silence_after is not None and n > self.silence_after
        return n * self.interval_ms / 1000 + (self.silence if silent else 0.0)


def _read(key: str, value: str) -> Any:
    if key in _NUMBERS:
        return int(value) if _NUMBER.fullmatch(value) else _refuse(key, value)
    if key in _FLAGS:
        return {"0": False, "1": True}[value] if value in ("0", "1") else _refuse(key, value)
    if key in _CHOICES or key == "content_type":
        return value
    keys = [field.name for field in fields(Script) if field.name != "name"]
    raise ValueError(f"model script: expected the keys {', '.join(keys)}, got {key!r}")


def _check(key: str, value: object) -> None:
    if key in _NUMBERS:
        low, high = _NUMBERS[key]
        good = type(value) is int and low <= value <= high and not (key == "status" and 200 < value < 400)
    elif key in _FLAGS:
        good = isinstance(value, bool)
    elif key in _CHOICES:
        good = value in _CHOICES[key]
    else:
        good = isinstance(value, str) and bool(_PRINTABLE.fullmatch(value))
    if not good:
        _refuse(key, value)


def _refuse(key: str, value: object) -> NoReturn:
    if key == "status":
        expected = "200, or a number from 400 to 599"
    elif key in _NUMBERS:
        expected = "a whole number from {} to {}".format(*_NUMBERS[key])
    elif key in _CHOICES:
        expected = "one of " + ", ".join(_CHOICES[key])
    else:
        expected = "0 or 1" if key in _FLAGS else "printable ASCII"
    raise ValueError(f"{key}: expected {expected}, got {value!r}")


def _check_together(script: Script) -> None:
    for key in ("silence_after", "error_after"):
        value = getattr(script, key)
        if value is not None and value > script.length:
            raise ValueError(f"{key}: expected at most the {script.length} tokens that are said, got {value}")
    if script.silence_ms and script.silence_after is None:
        raise ValueError(f"silence_ms: expected together with silence_after, got {script.silence_ms} alone")
    cuts = [key for key in ("reset_at", "close_at") if getattr(script, key) is not None]
    cuts += ["no_terminator"] if script.no_terminator else []
    if len(cuts) > 1:
        raise ValueError(f"reset_at, close_at, no_terminator: expected one of them, got {' and '.join(cuts)}")
    if script.no_terminator and script.framing != "chunked":
        raise ValueError(f"no_terminator: expected framing=chunked, got {script.framing!r}")
    if script.hold_open_ms and script.framing == "length":
        raise ValueError("hold_open_ms: expected a framing with an end after the last byte, got 'length'")
