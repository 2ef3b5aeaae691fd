"""What the embedded model says as OpenAI's chat completions.

https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

from typing import Any, Iterator

from flaskstream.lab.model.dialects.dialect import CREATED, PROMPT_TOKENS, Dialect, Voice, number_of, to_json
from flaskstream.lab.model.script import Script
from flaskstream.lab.model.words import Piece

_ERRORS = {  # status -> type and code, as OpenAI names them
    400: ("invalid_request_error", "invalid_request"),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
}


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


class _Chunks(Voice):
    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self._opening = to_json(_object(script, "chat.completion.chunk"))[:-1] + b',"choices":['

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return _event(self._opening + to_json(choice) + b"]}")

    def start(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": _or_null(self.script, "")})

    def say(self, piece: Piece) -> Iterator[bytes]:
        if piece.kind == "text":
            yield self._chunk({"content": piece.text})
        elif piece.kind == "call":
            yield self._chunk({"tool_calls": [{"index": piece.call, **_call(self.script, piece.call, "")}]})
        else:
            yield self._chunk({"tool_calls": [{"index": piece.call, "function": {"arguments": piece.text}}]})

    def end(self) -> Iterator[bytes]:
        yield self._chunk({}, _finish_reason(self.script))
        if self.script.usage:
            yield _event(self._opening + b'],"usage":' + to_json(_usage(self.script)) + b"}")
        yield from self._done()

    def failure(self) -> Iterator[bytes]:
        yield _event(to_json(OPENAI.scripted_error(self.script)))
        yield from self._done()

    def _done(self) -> Iterator[bytes]:
        if not self.script.no_done:
            yield _event(b"[DONE]")


def _whole(script: Script) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": _or_null(script, script.text)}
    if script.calls:
        message["tool_calls"] = [_call(script, n, call.arguments) for n, call in enumerate(script.calls)]
    whole = _object(script, "chat.completion")
    whole["choices"] = [{"index": 0, "message": message, "finish_reason": _finish_reason(script)}]
    whole["usage"] = _usage(script)
    return whole


def _object(script: Script, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number_of(script)}", "object": kind, "created": CREATED, "model": script.name}


def _or_null(script: Script, content: str) -> str | None:
    return None if script.calls and not script.tokens else content


def _call(script: Script, n: int, arguments: str) -> dict[str, Any]:
    function = {"name": script.calls[n].name, "arguments": arguments}
    return {"id": f"call_{number_of(script)}_{n}", "type": "function", "function": function}


def _finish_reason(script: Script) -> str:
    return "tool_calls" if script.calls else "stop"


def _usage(script: Script) -> dict[str, int]:
    total = PROMPT_TOKENS + script.length
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": script.length, "total_tokens": total}


def _error(status: int, message: str, param: str | None) -> dict[str, Any]:
    kind, code = _ERRORS.get(status, ("server_error", "internal_error") if status >= 500 else _ERRORS[400])
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


OPENAI = Dialect(
    "openai",
    "chat/completions",
    _Chunks,
    _whole,
    _error,
    stream_error_status=500,
    id_header="X-Request-Id",
    needed={"messages": (list, "a list of messages")},
)
