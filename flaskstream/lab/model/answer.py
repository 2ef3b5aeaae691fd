"""The bytes of the embedded model's answer, and when each is due. Pure: the server only plays it.

An answer is made in stages, each a small generator over steps: the events or one JSON body, as its dialect has
them, then the content coding, then the cut into pieces, then the framing with the scripted cut.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from http.client import responses
from typing import Iterable, Iterator

from flaskstream.lab.model.dialects import OPENAI, Dialect, to_json
from flaskstream.lab.model.script import LINE_ENDS, Script

_WBITS = {"gzip": 31, "gzip-unflushed": 31, "deflate": 15}  # 15: a zlib wrapper, as RFC 9110 8.4.1.2 means it


@dataclass(frozen=True)
class Step:
    """One write.

    Args:
        after: seconds after the head was written when it is due; `math.inf`: when the client left.
        data: the bytes; empty when a compressor kept all of them.
        tokens: how many tokens are said when this is written.
    """

    after: float
    data: bytes
    tokens: int


@dataclass(frozen=True)
class Answer:
    """What the server does for one request.

    Args:
        head_after: seconds after the request when the head is due.
        status_line: of the head, and
        headers: its fields, those of the framing among them.
        body: the whole body after the coding, before framing and cut.
        steps: the writes after the head, framed.
        end: what becomes of the connection then: "keep", "fin" or "reset".
        end_after: when, in seconds after the head was written.
        scripted: the script cuts this answer short.
    """

    head_after: float
    status_line: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    steps: tuple[Step, ...]
    end: str
    end_after: float
    scripted: bool

    def head(self, *more: tuple[str, str]) -> bytes:
        """The status line and the headers, with more of them at the end."""
        lines = [self.status_line, *(f"{name}: {value}" for name, value in (*self.headers, *more))]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def answer(script: Script, stream: bool = True, dialect: Dialect = OPENAI) -> Answer:
    """Plan the answer to a request for a stream, or for one JSON object, in a dialect.

    `coding=auto` must be settled before (`for_client`).

    Raises:
        ValueError: the script cuts after more bytes than the body has.
    """
    streamed = stream and script.status == 200
    content = _events(script, dialect) if streamed else _one_object(script, dialect)
    steps = list(_pieces(script.piece_bytes, _coded(script.coding, content)))
    body = b"".join(step.data for step in steps)
    limit = _limit(script, len(body))
    framed = list(_framed(script.framing, steps, limit))
    end_after = framed[-1].after if framed else 0.0
    if limit is None:
        end_after += script.hold_open_ms / 1000
    if script.framing == "chunked" and limit is None and not script.no_terminator:
        framed.append(Step(end_after, b"0\r\n\r\n", framed[-1].tokens))
    scripted = script.no_terminator or limit is not None
    kept = script.framing in ("chunked", "length") and not scripted
    return Answer(
        head_after=script.slow_headers_ms / 1000 + (0.0 if streamed else _thinking(script)),
        status_line=_status_line(script),
        headers=_headers(script, streamed, len(body)),
        body=body,
        steps=tuple(framed),
        end="keep" if kept else "fin" if script.reset_at is None else "reset",
        end_after=end_after,
        scripted=scripted,
    )


def for_client(script: Script, accept_encoding: str = "", http10: bool = False, usage: bool = False) -> Script:
    """Settle what depends on the client: what it offers, whether it knows chunks, whether it asked for usage.

    Raises:
        ValueError: a script about chunks for a client that knows none.
    """
    coding = script.coding
    if coding == "auto":
        coding = "gzip-unflushed" if offers_gzip(accept_encoding) else "identity"
    framing = "close" if http10 and script.framing == "chunked" else script.framing
    return replace(script, coding=coding, framing=framing, usage=script.usage or usage)


def offers_gzip(accept_encoding: str) -> bool:
    """Tell whether this Accept-Encoding admits gzip (RFC 9110 12.5.3); a client without the field offers none."""
    weights: dict[str, bool] = {}
    for item in accept_encoding.lower().split(","):
        coding, _, weight = item.replace(" ", "").replace("\t", "").partition(";q=")
        weights[coding] = weight.strip("0.") != "" if weight else True
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))


def _thinking(script: Script) -> float:
    """How many seconds the model takes until all is said, or its error comes; a refusal takes no time."""
    if script.status != 200:
        return 0.0
    return script.seconds if script.error_after is None else script.due(script.error_after + 1)


def _events(script: Script, dialect: Dialect) -> Iterator[Step]:
    """The event stream, an event a step."""
    line_end = LINE_ENDS[script.line_end]
    for after, event, tokens in _timed_events(script, dialect):
        yield Step(after, event.replace(b"\n", line_end), tokens)


def _timed_events(script: Script, dialect: Dialect) -> Iterator[tuple[float, bytes, int]]:
    voice, pieces = dialect.voice(script), script.pieces[: script.error_after]
    if script.comments:
        yield 0.0, b": PROCESSING\n\n", 0
    for event in voice.start():
        yield 0.0, event, 0
    for n, piece in enumerate(pieces, 1):
        for event in voice.say(piece):
            yield script.due(n), event, n
    for event in voice.end() if script.error_after is None else voice.failure():
        yield _thinking(script), event, len(pieces)


def _one_object(script: Script, dialect: Dialect) -> Iterator[Step]:
    """The answer in one JSON object, or the error in its place."""
    if script.status != 200 or script.error_after is not None:
        yield Step(0.0, to_json(dialect.scripted_error(script)), 0)
    else:
        yield Step(0.0, to_json(dialect.whole(script)), script.length)


def _coded(coding: str, steps: Iterable[Step]) -> Iterator[Step]:
    if coding == "identity":
        yield from steps
        return
    compressor = zlib.compressobj(wbits=_WBITS[coding])
    flushed = coding != "gzip-unflushed"
    all_steps = list(steps)
    for step in all_steps[:-1]:
        data = compressor.compress(step.data)
        yield replace(step, data=data + compressor.flush(zlib.Z_SYNC_FLUSH) if flushed else data)
    last = all_steps[-1]
    yield replace(last, data=compressor.compress(last.data) + compressor.flush())


def _pieces(size: int, steps: Iterable[Step]) -> Iterator[Step]:
    said = 0
    for step in steps:
        data = step.data
        while size and len(data) > size:
            yield Step(step.after, data[:size], said)
            data = data[size:]
        yield replace(step, data=data)
        said = step.tokens


def _limit(script: Script, length: int) -> int | None:
    limit = script.close_at if script.reset_at is None else script.reset_at
    if limit is not None and limit > length:
        raise ValueError(f"reset_at, close_at: expected at most the {length} bytes of this body, got {limit}")
    return limit


def _framed(framing: str, steps: Iterable[Step], limit: int | None) -> Iterator[Step]:
    """Frame each step; after `limit` body bytes nothing follows, not even the end of a chunk begun."""
    chunked = framing == "chunked"
    room, said = limit, 0
    for step in steps:
        if room == 0:
            return
        size = f"{len(step.data):x}\r\n".encode() if chunked and step.data else b""
        if room is not None and room < len(step.data):
            yield Step(step.after, size + step.data[:room], said)
            return
        yield replace(step, data=size + step.data + (b"\r\n" if size else b""))
        said = step.tokens
        room = None if room is None else room - len(step.data)


def _status_line(script: Script) -> str:
    version = "1.0" if script.framing == "http10" else "1.1"
    return f"HTTP/{version} {script.status} {responses.get(script.status, 'Error')}"


def _headers(script: Script, streamed: bool, length: int) -> tuple[tuple[str, str], ...]:
    right_type = "text/event-stream; charset=utf-8" if streamed else "application/json"
    content_type = right_type if script.content_type is None else script.content_type
    framing = {
        "chunked": ("Transfer-Encoding", "chunked"),
        "length": ("Content-Length", str(length)),
        "close": ("Connection", "close"),
        "http10": ("", ""),  # it closes, and so it means to
    }
    headers = (
        ("Content-Type" if content_type else "", content_type),
        ("Cache-Control" if streamed else "", "no-cache"),
        ("Content-Encoding" if script.coding != "identity" else "", script.coding.split("-")[0]),
        ("Retry-After" if script.status in (429, 503, 529) else "", str(script.retry_after)),
        framing[script.framing],
    )
    return tuple((name, value) for name, value in headers if name)
