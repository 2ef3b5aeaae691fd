"""What the embedded model says, in the JSON of the OpenAI API: chunks, whole answers, errors."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any, Iterator

from flaskstream.lab.script import LINE_ENDS, Script

CREATED = 1_700_000_000
"""Seconds since 1970 in every answer: a fixed time, so that the same script is the same bytes."""

PROMPT_TOKENS = 8
"""What the usage says of the prompt, which nobody counted."""

_ERRORS = {  # status -> type and code, as OpenAI names them
    400: ("invalid_request_error", "invalid_request"),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
}


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


def error_object(status: int, message: str, param: str | None = None) -> dict[str, Any]:
    """An error as the OpenAI API says it."""
    kind, code = _ERRORS.get(status, ("server_error", "internal_error") if status >= 500 else _ERRORS[400])
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def to_json(value: object) -> bytes:
    """JSON as OpenAI writes it: no spaces, and UTF-8 as it is, so that a cut may fall inside a character."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate of the client's: JSON's own escape of it


def thinking(script: Script) -> float:
    """How many seconds the model takes until all is said, or its error comes; a refusal takes no time."""
    if script.status != 200:
        return 0.0
    return script.seconds if script.error_after is None else script.due(script.error_after + 1)


def events(script: Script) -> Iterator[Step]:
    """The event stream of a script, an event a step."""
    end = LINE_ENDS[script.line_end] * 2
    opening = to_json(_object(script, "chat.completion.chunk"))[:-1] + b',"choices":['

    def event(data: bytes) -> bytes:
        return b"data: " + data + end

    def chunk(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return event(opening + to_json(choice) + b"]}")

    if script.comments:
        yield Step(0.0, b": PROCESSING" + end, 0)
    yield Step(0.0, chunk({"role": "assistant", "content": ""}), 0)
    said = script.tokens if script.error_after is None else script.error_after
    for n, text in enumerate(script.token_texts[:said], 1):
        yield Step(script.due(n), chunk({"content": text}), n)
    ended = thinking(script)
    if script.error_after is None:
        yield Step(ended, chunk({}, "stop"), said)
        if script.usage:
            usage = b'],"usage":' + to_json(_usage(script)) + b"}"
            yield Step(ended, event(opening + usage), said)
    else:
        yield Step(ended, event(to_json(_scripted_error(script))), said)
    if not script.no_done:
        yield Step(ended, event(b"[DONE]"), said)


def one_object(script: Script) -> Iterator[Step]:
    """The answer in one JSON object, or the error in its place."""
    if script.status != 200 or script.error_after is not None:
        yield Step(0.0, to_json(_scripted_error(script)), 0)
        return
    message = {"role": "assistant", "content": script.text}
    whole = _object(script, "chat.completion")
    whole["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
    whole["usage"] = _usage(script)
    yield Step(0.0, to_json(whole), script.tokens)


def _object(script: Script, kind: str) -> dict[str, Any]:
    number = zlib.crc32(script.name.encode())
    return {"id": f"chatcmpl-{number:08x}", "object": kind, "created": CREATED, "model": script.name}


def _usage(script: Script) -> dict[str, int]:
    total = PROMPT_TOKENS + script.tokens
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": script.tokens, "total_tokens": total}


def _scripted_error(script: Script) -> dict[str, Any]:
    status = script.status if script.status != 200 else 500
    return error_object(status, f"The script asked for this error ({status}).")
