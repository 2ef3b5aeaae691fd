"""What the embedded model says as Anthropic's messages.

https://docs.anthropic.com/en/docs/build-with-claude/streaming and https://docs.anthropic.com/en/api/errors
"""

from __future__ import annotations

import json
from typing import Any, Iterator

from flaskstream.lab.model.dialects.dialect import PROMPT_TOKENS, Dialect, Voice, number_of, to_json
from flaskstream.lab.model.script import Script
from flaskstream.lab.model.words import Piece

_ERRORS = {  # status -> type, as Anthropic names them
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + to_json({"type": kind, **fields}) + b"\n\n"


class _Events(Voice):
    """The content is blocks one after the other: the text, if there is any, then each call."""

    def start(self) -> Iterator[bytes]:
        usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": 1}
        yield _event("message_start", message=_message(self.script, [], None, usage))
        if self.script.tokens:
            yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield _event("ping")

    def say(self, piece: Piece) -> Iterator[bytes]:
        block = self._block(piece.call) if piece.kind != "text" else 0
        if piece.kind == "text":
            yield self._delta(block, type="text_delta", text=piece.text)
        elif piece.kind == "call":
            yield from self._stop(block)
            yield _event("content_block_start", index=block, content_block=_call(self.script, piece.call, {}))
        else:
            yield self._delta(block, type="input_json_delta", partial_json=piece.text)

    def end(self) -> Iterator[bytes]:
        yield from self._stop(self._block(len(self.script.calls)))
        stop = {"stop_reason": _stop_reason(self.script), "stop_sequence": None}
        yield _event("message_delta", delta=stop, usage={"output_tokens": self.script.length})
        if not self.script.no_done:
            yield _event("message_stop")

    def failure(self) -> Iterator[bytes]:
        error = ANTHROPIC.scripted_error(self.script)
        yield _event("error", error=error["error"])

    def _block(self, call: int) -> int:
        return call + bool(self.script.tokens)

    def _delta(self, block: int, **delta: str) -> bytes:
        return _event("content_block_delta", index=block, delta=delta)

    def _stop(self, next_block: int) -> Iterator[bytes]:
        if next_block:
            yield _event("content_block_stop", index=next_block - 1)


def _whole(script: Script) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": script.text}] if script.tokens else []
    content += [_call(script, n, json.loads(call.arguments)) for n, call in enumerate(script.calls)]
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": script.length}
    return _message(script, content, _stop_reason(script), usage)


def _message(
    script: Script, content: list[dict[str, Any]], stop_reason: str | None, usage: dict[str, int]
) -> dict[str, Any]:
    return {
        "id": f"msg_{number_of(script)}",
        "type": "message",
        "role": "assistant",
        "model": script.name,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _call(script: Script, n: int, arguments: dict[str, Any]) -> dict[str, Any]:
    identity = f"toolu_{number_of(script)}_{n}"
    return {"type": "tool_use", "id": identity, "name": script.calls[n].name, "input": arguments}


def _stop_reason(script: Script) -> str:
    return "tool_use" if script.calls else "end_turn"


def _error(status: int, message: str, param: str | None) -> dict[str, Any]:
    kind = _ERRORS.get(status, _ERRORS[500] if status >= 500 else _ERRORS[400])
    return {"type": "error", "error": {"type": kind, "message": message}}  # it says no field but in the message


ANTHROPIC = Dialect(
    "anthropic",
    "messages",
    _Events,
    _whole,
    _error,
    stream_error_status=529,
    id_header="request-id",
    needed={"messages": (list, "a list of messages"), "max_tokens": (int, "a whole number")},
)
