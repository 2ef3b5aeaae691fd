"""What the embedded model was asked, and what became of each answer: the ground truth of the tests."""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from typing import Any

MAX_REQUESTS = 1000
"""How many requests are remembered: more than a comparison or a test makes."""


@dataclasses.dataclass
class Request:
    """One request; changed only through its `RequestLog`.

    Args:
        id: counts from 1 for the life of the server.
        path: as received, with the query string.
        headers: as received; names in lower case, a repeated field's values joined by commas.
        model: the `model` field of the body, if there is one.
        tokens_total: how many tokens the script says; 0 where no script was played.
        sent_tokens: how many of them were said; one counts when its write begins and succeeds.
        ended: None while it runs; "complete": every byte of the answer, the end of its framing too, was
            written; "scripted": the script cut it; "peer_left".
        started_at: when its head was read, in seconds of `time.monotonic()`, as the other times.
        peer_left_at: when the peer's going was seen.
    """

    id: int
    method: str
    path: str
    headers: dict[str, str]
    model: str | None = None
    tokens_total: int = 0
    sent_tokens: int = 0
    ended: str | None = None
    started_at: float = dataclasses.field(default_factory=time.monotonic)
    ended_at: float | None = None
    peer_left_at: float | None = None


class RequestLog:
    """The last requests, oldest first; safe to use from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: collections.deque[Request] = collections.deque(maxlen=MAX_REQUESTS)
        self._count = 0

    def open(self, method: str, path: str, headers: dict[str, str]) -> Request:
        """Remember a request that has just come."""
        with self._lock:
            self._count += 1
            request = Request(self._count, method, path, headers)
            self._requests.append(request)
            return request

    def note(self, request: Request, **changes: Any) -> None:
        """Change some fields of it, all at once for every reader."""
        with self._lock:
            for name, value in changes.items():
                setattr(request, name, value)

    def end(self, request: Request, ended: str, **changes: Any) -> None:
        """Note how it ended, now."""
        self.note(request, ended=ended, ended_at=time.monotonic(), **changes)

    def as_json(self) -> list[dict[str, Any]]:
        """Copies of all that is remembered."""
        with self._lock:
            return [dataclasses.asdict(request) for request in self._requests]

    def clear(self) -> int:
        """Forget all requests, those that still run too; return how many they were."""
        with self._lock:
            forgotten = len(self._requests)
            self._requests.clear()
            return forgotten
