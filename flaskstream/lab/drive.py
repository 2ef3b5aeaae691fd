"""Several clients at once against one server: each notes when every piece of its answer was whole at its socket."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Sequence, TypeVar

from flaskstream.doctor.measure import Exchange, Request, Timed, open_exchange
from flaskstream.lab.pace import Pieces

SILENCE_SECONDS = 30.0
"""A client that hears nothing for so long gives up: the patience of a person, and of many a proxy."""

T = TypeVar("T")


@dataclass(frozen=True)
class Driven:
    """What one client saw. Times are seconds after its request left.

    Attributes:
        status: the HTTP status; `None`: no answer.
        headers: of the answer.
        pieces: each token event: when it was whole, and the length of its text.
        ended: one of `flaskstream.lab.runs.ENDINGS`.
        ended_at: when.
        code: of the `event: error`, or the HTTP status of an error.
        sent_at: when its request left, after the first client of the drive began.
        began_at, gone_at: of the client, in seconds since the epoch.
    """

    status: int | None
    headers: tuple[tuple[str, str], ...]
    pieces: Pieces
    ended: str
    ended_at: float
    code: str | None
    sent_at: float
    began_at: float
    gone_at: float


def drive(url: str, payload: Any, clients: int, leave_after: int | None = None) -> tuple[Driven, ...]:
    """Have so many clients POST the payload at once; return what each saw when all have ended, the fastest first.

    Args:
        url: of a route that answers with `{"t": ...}` events.
        payload: sent as JSON.
        clients: how many.
        leave_after: each client goes after so many events; `None`: it stays.
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
    origin = time.monotonic()

    def be_a_client() -> Driven:
        together.wait()
        return _one_client(request, origin, leave_after)

    return tuple(sorted(at_once([be_a_client] * clients), key=_first_piece_at))


def at_once(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Call each job in a thread of its own, and return what they returned, in the order of the jobs.

    Ctrl-C ends the waiting. The threads do not keep the process alive.

    Raises:
        Exception: what a job raised; of several, the first job's.
    """
    futures: list[Future[T]] = [Future() for _ in jobs]
    for job, future in zip(jobs, futures):
        threading.Thread(target=_fulfil, args=(future, job), daemon=True).start()
    return [future.result() for future in futures]


def _fulfil(future: Future[T], job: Callable[[], T]) -> None:
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)


def _first_piece_at(driven: Driven) -> float:
    return driven.pieces[0][0] if driven.pieces else float("inf")


def _one_client(request: Request, origin: float, leave_after: int | None) -> Driven:
    began_at = time.time()
    watch = _Watch()
    with open_exchange(request) as exchange:
        for timed in exchange.events():
            watch.note(timed)
            if watch.ended or len(watch.pieces) == leave_after:
                break
        else:
            watch.note_end_without_word(exchange)
    sent_at, ended_at = exchange.sent_at, watch.ended_at or exchange.ended_at or time.monotonic()
    return Driven(
        status=exchange.status,
        headers=exchange.headers,
        pieces=tuple((at - sent_at, length) for at, length in watch.pieces),
        ended=watch.ended or "left",
        ended_at=ended_at - sent_at,
        code=watch.code,
        sent_at=sent_at - origin,
        began_at=began_at,
        gone_at=time.time(),
    )


class _Watch:
    """Follows the events of one client."""

    def __init__(self) -> None:
        self.pieces: list[tuple[float, int]] = []
        self.ended = ""
        self.ended_at: float | None = None
        self.code: str | None = None

    def note(self, timed: Timed) -> None:
        if timed.event.event == "message":
            self.pieces.append((timed.at, len(timed.event.json().get("t", ""))))
        elif timed.event.event in ("done", "error"):
            self.ended, self.ended_at = timed.event.event, timed.at
            if self.ended == "error":
                self.code = timed.event.json().get("code")

    def note_end_without_word(self, exchange: Exchange) -> None:
        if exchange.status is None:
            self.ended = "unreachable"
        elif exchange.status >= 400:
            self.ended, self.code = "error", str(exchange.status)
        else:
            self.ended = "cut"
        self.ended_at = exchange.ended_at
