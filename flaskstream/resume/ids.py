"""What names streams and their events: the id of an event is `epoch-number`."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from typing import Any, NamedTuple

_EVENT_ID = re.compile("([0-9a-f]{20})-([0-9]{1,15})")
_STREAM_ID = re.compile("[A-Za-z0-9_-]{16,128}")
_MAX_KEY = 255  # characters

_NO_NUMBER = 10**15 - 1
"""Of no event: no stream has so many."""


class Position(NamedTuple):
    """How far a reader has come: the epoch and the number in the id of the last event that it has."""

    epoch: str
    number: int


def new_stream_id() -> str:
    """Return an id that nobody guesses."""
    return secrets.token_hex(16)


def new_epoch() -> str:
    """Return the name of one history of a stream; whoever knows it may ask for the stream, so nobody guesses it."""
    return secrets.token_hex(10)


def event_id(epoch: str, number: int) -> str:
    """Return the id of an event."""
    return f"{epoch}-{number}"


def lost_id(epoch: str) -> str:
    """Return the id of an event that is not recorded: whoever comes back with it is told to begin anew."""
    return event_id(epoch, _NO_NUMBER)


def start_id(epoch: str) -> str:
    """Return the id of a client that has nothing yet, but has begun a stream and is not to begin another."""
    return event_id(epoch, 0)


def parse_event_id(last_event_id: str | None) -> Position | None:
    """Return the position that an id names; `None`: it is none of ours, and counts as no id at all."""
    match = _EVENT_ID.fullmatch(last_event_id or "")
    return None if match is None else Position(match.group(1), int(match.group(2)))


def checked_stream_id(given: str) -> str:
    """Return an id that a client has chosen for its stream. Raises `ValueError`: it does not do."""
    if not _STREAM_ID.fullmatch(given):
        raise ValueError(
            f"X-Stream-Id: expected 16 to 128 of the characters A-Z a-z 0-9 _ - that nobody guesses, got {given!r:.140}"
        )
    return given


def checked_key(given: str) -> str:
    """Return an `Idempotency-Key`. Raises `ValueError`: it does not do."""
    if not given.strip() or len(given) > _MAX_KEY or not given.isprintable():
        raise ValueError(f"Idempotency-Key: expected 1 to {_MAX_KEY} characters that can be printed, got {given!r:.80}")
    return given


def digest(payload: Any) -> str:
    """Return what tells one question from another."""
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
