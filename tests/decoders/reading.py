"""What a decoder is to these tests: streams in, cut in given places; what it read of them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, Tuple

from sse_reading import cut_at


class Seen(NamedTuple):
    """One event, as its reader is told of it. What is not told is ""; an event without a name is a "message"."""

    event: str
    data: str
    id: str


class Reading(NamedTuple):
    """What was read of a stream: its events, the last reconnection time, and what was raised, if anything."""

    events: tuple[Seen, ...]
    retry: int | None
    failure: str | None = None


@dataclass(frozen=True)
class Case:
    """A stream, and the ways to cut it: the name and the places of each."""

    name: str
    stream: bytes
    cuttings: Mapping[str, Sequence[int]]

    def pieces(self, cutting: str) -> list[bytes]:
        return cut_at(self.stream, self.cuttings[cutting])


Told = Tuple[Any, Any, Any, Any]
"""The name, the data, the id and the retry of one event, as its decoder tells them."""

Readings = Mapping[Tuple[str, str], Reading]
"""By the names of the case and of the cutting."""


@dataclass(frozen=True)
class Decoder:
    """One decoder.

    Attributes:
        name: of its package.
        read_all: reads every case in every cutting.
        missing: tells what is not there without which it cannot be asked; `None`: nothing.
        tells_last_id: the id of its events is the last one of the stream, as the standard's `lastEventId`; `False`:
            the one that the event itself carries.
        tells_retry: it lets its users know the reconnection time.
    """

    name: str
    read_all: Callable[[Sequence[Case]], Readings]
    missing: Callable[[], str | None]
    tells_last_id: bool
    tells_retry: bool = True


def reading(told: Iterable[Told]) -> Reading:
    """Take events until there are no more, or something is raised."""
    events: list[Seen] = []
    retry: int | None = None
    failure = None
    try:
        for event, data, id, newer in told:
            events.append(Seen(event or "message", data or "", id or ""))
            retry = retry if newer is None else int(newer)
    except Exception as error:
        failure = repr(error)
    return Reading(tuple(events), retry, failure)


def one_by_one(read: Callable[[list[bytes]], Iterable[Told]]) -> Callable[[Sequence[Case]], Readings]:
    """Return what reads every case, given a function that reads pieces."""

    def read_all(cases: Sequence[Case]) -> Readings:
        return {
            (case.name, cutting): reading(read(case.pieces(cutting))) for case in cases for cutting in case.cuttings
        }

    return read_all


def answered(cases: Sequence[Case], answers: Iterable[Mapping[str, Any]]) -> Readings:
    """Return the readings that a program in JavaScript gave: one after the other, in the order of the cases.

    Args:
        cases: what it was asked to read.
        answers: `{"events": [{"event": ..., "data": ..., "id": ..., "retry": ...}, ...], "failure": ...}` for each.
    """
    asked = [(case.name, cutting) for case in cases for cutting in case.cuttings]
    return {names: _as_reading(answer) for names, answer in zip(asked, answers)}


def _as_reading(answer: Mapping[str, Any]) -> Reading:
    told = ((event.get("event"), event.get("data"), event.get("id"), event.get("retry")) for event in answer["events"])
    return reading(told)._replace(failure=answer.get("failure"))
