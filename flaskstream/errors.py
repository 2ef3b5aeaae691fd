"""Everything that goes wrong, on one screen.

Each error says whose fault it is. `code` is stable and goes on the wire in `event: error`;
`status` is the HTTP status while one can still be sent (before the first byte), `message` is what the
client is told. `str(error)` is for the log: it names what was expected and what came, and no client ever
sees it, for it may hold what is not the client's business.
"""

from __future__ import annotations

from typing import Mapping

MAX_ERROR_BODY_BYTES = 16 * 1024
"""How much of an upstream's error page is kept: enough for any JSON error, not for an HTML site."""


class FlaskStreamError(Exception):
    """The root of the tree."""

    code = "internal"
    status = 500
    message = "The stream failed. The log of the server says why, under this id."


class AlreadyLogged(FlaskStreamError):
    """What failed has failed elsewhere, and the log says why there."""


class InvalidEvent(FlaskStreamError, ValueError):
    """The caller asked for an event that the wire format cannot carry. Nothing was repaired."""


class InvalidSetting(FlaskStreamError, ValueError):
    """A setting or option has a value that does not work; says what was expected and what came."""


class BodyWasRead(FlaskStreamError, RuntimeError):
    """Something in this process tried to read a stream whole before it was sent; names the caller."""


class EventTooLarge(FlaskStreamError):
    """One event of the peer grew past the limit, so it is not held in memory any longer."""

    code = "event_too_large"
    status = 502
    message = "The upstream sent an event that is too large."


class TooManyStreams(FlaskStreamError):
    """This worker has as many open streams as it may have."""

    code = "too_many_streams"
    status = 503
    message = "The server has too many open streams. Try again in a moment."


class ShuttingDown(FlaskStreamError):
    """This worker is being stopped, by a deploy for instance."""

    code = "shutting_down"
    status = 503
    message = "The server is being restarted, and the answer was not complete in time."


class StoreUnavailable(FlaskStreamError):
    """The store of streams cannot be asked now: it is gone, locked, full, or slow."""

    code = "store_unavailable"
    status = 503
    message = "The server cannot keep or find streams now. Try again in a moment."


class ProducerLost(FlaskStreamError):
    """The process that produced the answer has died, or lost its store, before it was complete."""

    code = "producer_lost"
    status = 502
    message = "The server lost the answer before it was complete."


class MaxDuration(FlaskStreamError):
    """The stream is as old as a stream may become."""

    code = "max_duration"
    status = 504
    message = "The stream has lasted for as long as one may."


class UpstreamError(FlaskStreamError):
    """The upstream failed, or what it sent is not what this dialect looks like."""

    code = "upstream_error"
    status = 502
    asked = ""
    """The URL that was asked, for the log."""
    message = "The upstream failed, or sent what is no answer."


class UpstreamRefused(UpstreamError):
    """No connection: refused, reset before an answer, a name that does not resolve, a bad certificate."""

    code = "upstream_refused"
    message = "The upstream cannot be reached."


class UpstreamTimeout(UpstreamError):
    """The upstream did not accept, or did not begin to answer, in time."""

    code = "upstream_timeout"
    status = 504
    message = "The upstream did not answer in time."


class IdleTimeout(UpstreamError):
    """The upstream began to answer and then said nothing for longer than the idle limit."""

    code = "idle_timeout"
    status = 504
    message = "The upstream has said nothing for too long."


class UpstreamTruncated(UpstreamError):
    """The upstream's bytes ended before its answer did."""

    code = "upstream_truncated"
    message = "The upstream broke off before its answer was complete."


class UpstreamStatus(UpstreamError):
    """The upstream answered with an error status: its status, a bounded copy of its body, and when to retry.

    The message names the status only: an error page may quote the key that it refused.
    """

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"expected a 2xx status from the upstream, got {status}")
        self.status = status
        self.body = body[:MAX_ERROR_BODY_BYTES]
        self.content_type = content_type
        self.headers = dict(headers or {})
