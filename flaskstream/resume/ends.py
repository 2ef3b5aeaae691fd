"""How a recorded stream ends, as the last record of it says. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Iterator, Mapping

from flaskstream.errors import AlreadyLogged, FlaskStreamError, ProducerLost, UpstreamStatus
from flaskstream.sse import Decoder, Event, encode, to_json
from flaskstream.stores.protocol import DONE, FAILED, STOPPED
from flaskstream.wire import describe

BY_REQUEST = "request"
"""Somebody asked for it: `DELETE`."""
NO_READER = "no_reader"
"""Nobody has followed it for too long."""


@dataclass(frozen=True)
class End:
    """The end of a stream.

    Attributes:
        state: that of the stream then.
        event: which says so.
        failure: what ended it, where that is an error.
    """

    state: str
    event: Event
    failure: Exception | None = None

    @property
    def reason(self) -> str | None:
        """Why it ended, where it is not whole: the code of an error, or what it was stopped for."""
        said = self.event.json()
        found = said.get("code", said.get("reason"))
        return None if found is None else str(found)

    @property
    def block(self) -> bytes:
        """The lines of the last record."""
        return encode(self.event)


def done(events: int) -> End:
    """Return the end of a whole answer of so many events."""
    return End(DONE, Event(to_json({"events": events}), "done"))


def stopped(reason: str) -> End:
    """Return the end of an answer that was stopped, for one of the reasons above."""
    return End(STOPPED, Event(to_json({"reason": reason}), "stopped"))


def failed(failure: Exception, stream_id: str) -> End:
    """Return the end of an answer that failed."""
    said: dict[str, Any] = describe(failure, stream_id)
    if isinstance(failure, UpstreamStatus):  # for those who wait for it in other processes
        said = {**said, "status": failure.status, "retry_after": failure.headers.get("Retry-After")}
    return End(
        FAILED, Event(to_json({key: value for key, value in said.items() if value is not None}), "error"), failure
    )


def lost(stream_id: str) -> End:
    """Return the end of an answer whose producer is lost."""
    return failed(
        ProducerLost("expected the producer of the stream to renew its lease in time, got nothing"), stream_id
    )


class RecordedFailure(AlreadyLogged):
    """A stream has failed, in another process or some time ago, as its last record says."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.code = str(said.get("code", FlaskStreamError.code))
        self.message = str(said.get("message", FlaskStreamError.message))
        self.status = _STATUSES.get(self.code, FlaskStreamError.status)
        super().__init__(f"the answer failed: {self.message} ({said.get('id', '?')})")


class RecordedStatus(UpstreamStatus, AlreadyLogged):
    """The same, where the upstream answered with an error status."""


def recorded_failure(block: bytes) -> RecordedFailure | RecordedStatus:
    """Return the error that a last record tells of."""
    said = _said(block)
    status = said.get("status")
    if not isinstance(status, int):
        return RecordedFailure(said)
    retry_after = said.get("retry_after")
    return RecordedStatus(status, headers={} if retry_after is None else {"Retry-After": str(retry_after)})


def _said(block: bytes) -> dict[str, Any]:
    events = Decoder().feed(block)
    try:
        said = json.loads(events[0].data) if events else None
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {}


def _all_errors(root: type[FlaskStreamError] = FlaskStreamError) -> Iterator[type[FlaskStreamError]]:
    yield root
    for child in root.__subclasses__():
        yield from _all_errors(child)


_STATUSES = {error.code: error.status for error in reversed(list(_all_errors()))}
"""By code; of classes that share one, the root of them tells it."""
