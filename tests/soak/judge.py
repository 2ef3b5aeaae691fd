"""Whether a stream may have ended as it did. Knows nothing of servers: an answer in, a word about its end out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from conftest import API_KEY
from relay_client import COMPLETIONS

from soak.clients import Got

OWN_STATUSES = (502, 503, 504)
"""What a stream is answered that fails before its first byte, whoever's fault it is."""


@dataclass(frozen=True)
class Verdict:
    """How a stream ended, and what is wrong with that.

    Attributes:
        end: a word, such as "done", "left", "cut", "502" or the code of an error.
        wrong: what must never happen; "": nothing.
        unexpected: what must have a cause outside of the stream, such as a worker that was killed; "": nothing.
    """

    end: str
    wrong: str = ""
    unexpected: str = ""


def judge(got: Got) -> Verdict:
    """Return the verdict about one answer."""
    if API_KEY.encode() in got.body:
        return Verdict("key", wrong="the API key is in the answer")
    if got.status is None:
        return Verdict("left") if got.left else Verdict("no answer", unexpected=got.failure)
    if got.status != 200:
        return _of_status(got)
    return _of_faithful(got) if got.route == COMPLETIONS else _of_events(got)


def _of_status(got: Got) -> Verdict:
    own = _parsed(bytes(got.body))
    code = own["error"].get("code") if isinstance(own, dict) and isinstance(own.get("error"), dict) else None
    end = f"{got.status} {code}" if code else str(got.status)
    if got.left or got.play.is_whole is not True or code == "too_many_streams":
        return Verdict(end)
    wrong = "" if got.status in OWN_STATUSES else "a status that nobody sends"
    return Verdict(end, wrong, unexpected=f"a whole answer was refused: {bytes(got.body[:300])!r}")


def _of_events(got: Got) -> Verdict:
    events = _events(got.body)
    if not all(isinstance(data, dict) for _, data in events):
        return Verdict("muddle", wrong=f"an event that is none of ours: {bytes(got.body[:300])!r}")
    text = "".join(data["t"] for name, data in events if name == "message")
    ends = [name for name, _ in events if name != "message"]
    if ends and ends != [events[-1][0]]:
        return Verdict("muddle", wrong=f"an end that is not the end: {ends}")
    if ends == ["error"]:
        code = events[-1][1]["code"]
        return _of_failure(got, text, code)
    if ends == ["done"]:
        return _of_whole(got, text, "done")
    if got.is_proper:
        return Verdict("silence", wrong="a proper end without a word")
    return _of_cut(got, text)


def _of_faithful(got: Got) -> Verdict:
    events = _events(got.body)
    text = "".join(map(_delta, (data for _, data in events)))
    errors = [data["error"] for _, data in events if isinstance(data, dict) and "error" in data]
    if errors:
        if got.is_proper and got.play.is_whole is not None:
            return Verdict("muddle", wrong="an error, and a proper end")
        code = errors[-1].get("code") if isinstance(errors[-1], dict) else None
        return _of_failure(got, text, str(code or "upstream's own error"))
    if got.is_proper:
        return _of_whole(got, text, "whole")
    return _of_cut(got, text)


def _of_whole(got: Got, text: str, end: str) -> Verdict:
    if got.play.status != 200:
        return Verdict(end, wrong="a whole answer of an upstream that gave none")
    if got.play.is_whole is False:
        return Verdict(end, wrong="it looks whole and is not")
    return Verdict(end, wrong="" if text == got.play.text else "it looks whole and has another text")


def _of_failure(got: Got, text: str, code: str) -> Verdict:
    unexpected = f"a whole answer failed: {code}" if got.play.is_whole and not got.left else ""
    return Verdict(code, _of_prefix(got, text), unexpected)


def _of_cut(got: Got, text: str) -> Verdict:
    wrong = _of_prefix(got, text)
    if got.left:
        return Verdict("left", wrong)
    said = "" if got.play.kind == "rubbish" else f"cut without a word: {got.failure}"  # no word is found in that
    return Verdict("cut", wrong, unexpected=said)


def _of_prefix(got: Got, text: str) -> str:
    if got.play.kind in ("rubbish", "reports_an_error") or got.play.text.startswith(text):
        return ""
    return "the text is not what the upstream said"


def _events(body: bytearray) -> list[tuple[str, Any]]:
    """Read the whole events, plainly: what is left of half an event is nobody's business here."""
    found = []
    for block in bytes(body).split(b"\n\n")[:-1]:
        lines = [line.partition(b": ") for line in block.split(b"\n") if line and not line.startswith(b":")]
        data = b"\n".join(value for name, _, value in lines if name == b"data")
        names = [value.decode() for name, _, value in lines if name == b"event"]
        if data:
            found.append((names[-1] if names else "message", _parsed(data)))
    return found


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _delta(data: Any) -> str:
    try:
        return data["choices"][0]["delta"]["content"] or ""
    except (TypeError, KeyError, IndexError):
        return ""
