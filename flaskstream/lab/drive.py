"""Several clients at once against one server: each notes when every token was whole at its socket."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import Any, Iterator, Sequence

from flaskstream.doctor.measure import Exchange, Request, Timed, open_exchange
from flaskstream.lab.runs import ClientRun

SILENCE_SECONDS = 30.0
"""A client that hears nothing for so long gives up: longer than any queue of a comparison, shorter than patience."""


@dataclass(frozen=True)
class Driven:
    """What one client saw.

    Attributes:
        run: its stream.
        events: how many token events came; several tokens may come in one.
        began_at: when it began, in seconds since the epoch.
        ended_at: when it ended, on the same clock.
    """

    run: ClientRun
    events: int
    began_at: float
    ended_at: float


def drive(
    url: str,
    payload: Any,
    clients: int,
    tokens: Sequence[str] | None = None,
    leave_after: int | None = None,
) -> tuple[Driven, ...]:
    """Have so many clients POST the payload at once, and return what each saw when all have ended.

    Args:
        url: of a route that answers with `{"t": ...}` events.
        payload: sent as JSON.
        clients: how many.
        tokens: the tokens that are expected, in order, so that each is timed also where several come in one event;
            `None`: they are not known, and every event counts as one.
        leave_after: each client goes after so many tokens; `None`: it stays.
    """
    request = Request(
        url,
        "POST",
        headers=(
            ("Content-Type", "application/json"),
            ("Accept", "text/event-stream"),
            ("Accept-Encoding", "gzip"),  # as every browser offers it: a compressor must have its chance
        ),
        body=json.dumps(payload).encode(),
        timeout=SILENCE_SECONDS,
    )
    together = threading.Barrier(clients)
    seen: list[Driven] = []
    origin = time.monotonic()

    def be_a_client() -> None:
        together.wait()
        seen.append(_one_client(request, origin, tokens, leave_after))

    threads = [threading.Thread(target=be_a_client, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tuple(sorted(seen, key=lambda driven: driven.run.arrivals[:1] or (float("inf"),)))


def _one_client(request: Request, origin: float, tokens: Sequence[str] | None, leave_after: int | None) -> Driven:
    began_at = time.time()
    watch = _Watch(tokens)
    with open_exchange(request) as exchange:
        for timed in exchange.events():
            watch.note(timed)
            if watch.ended or (leave_after is not None and len(watch.arrivals) >= leave_after):
                break
        else:
            watch.note_end_without_word(exchange)
    sent_at, ended_at = exchange.sent_at, exchange.ended_at or time.monotonic()
    run = ClientRun(
        status=exchange.status,
        sent_at=sent_at - origin,
        arrivals=tuple(at - sent_at for at in watch.arrivals),
        ended=watch.ended or "left",
        ended_at=(watch.ended_at or ended_at) - sent_at,
        code=watch.code,
        headers=exchange.headers,
    )
    return Driven(run, watch.events, began_at, time.time())


class _Watch:
    """Follows the events of one client."""

    def __init__(self, tokens: Sequence[str] | None) -> None:
        self._ends = None if tokens is None else list(_ends_of(tokens))
        self._length = 0
        self.arrivals: list[float] = []
        self.events = 0
        self.ended = ""
        self.ended_at: float | None = None
        self.code: str | None = None

    def note(self, timed: Timed) -> None:
        if timed.event.event == "message":
            self._note_text(timed.event.json().get("t", ""), timed.at)
        elif timed.event.event in ("done", "error"):
            self.ended, self.ended_at = timed.event.event, timed.at
            if self.ended == "error":
                self.code = timed.event.json().get("code")

    def _note_text(self, text: str, at: float) -> None:
        self.events += 1
        self._length += len(text)
        if self._ends is None:
            self.arrivals.append(at)
            return
        while len(self.arrivals) < len(self._ends) and self._ends[len(self.arrivals)] <= self._length:
            self.arrivals.append(at)

    def note_end_without_word(self, exchange: Exchange) -> None:
        if exchange.status is None:
            self.ended = "unreachable"
        elif exchange.status >= 400:
            self.ended, self.code = "error", str(exchange.status)
        else:
            self.ended = "cut"
        self.ended_at = exchange.ended_at


def _ends_of(tokens: Sequence[str]) -> Iterator[int]:
    """Yield, for each token, how long the text is when it is there."""
    length = 0
    for token in tokens:
        length += len(token)
        yield length
