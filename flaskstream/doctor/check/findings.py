"""What can be found: a table of codes, each with its weight, the doctor's word for the cause, and the cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from flaskstream.doctor.check.places import Place

HOLDS, FAULT, WARNING, NOTE = "holds", "fault", "warning", "note"
"""The stream is held; something else is broken; something may be; worth knowing. Only the first decides the verdict."""

SEVERITIES = (HOLDS, FAULT, WARNING, NOTE)
"""The gravest first."""


@dataclass(frozen=True)
class Row:
    """A kind of finding.

    Attributes:
        severity: one of the four above.
        cause: as in the doctor's report; empty for what holds nothing.
        cure: what to do.
    """

    severity: str
    cause: str
    cure: str


@dataclass(frozen=True)
class Finding:
    """One of them, found.

    Attributes:
        code: the key of its row.
        sentence: what was seen, with names and figures.
        places: the lines of code that it is about; the first is where to look first.
    """

    code: str
    sentence: str
    places: tuple[Place, ...] = ()

    @property
    def row(self) -> Row:
        """Its row of the table."""
        return FINDINGS[self.code]


_LEAVE_ALONE = "leave streamed responses alone there: if response.is_streamed: return response; or @event_stream"
_NO_COMPRESSOR = "keep text/event-stream out of it, or flush after each piece (Z_SYNC_FLUSH); @event_stream keeps off"
_PASS_ON = "yield each piece as it comes: for piece in body: yield piece; and close the body in a finally"
_REAL_LIBRARY = (
    "pip install --force-reinstall urllib3 requests, and see which package or import puts another in their place"
)

FINDINGS: Mapping[str, Row] = {
    "body_read_early": Row(HOLDS, "body_reading_hook", _LEAVE_ALONE),
    "body_joined_in_view": Row(
        HOLDS, "joined_body", "return the generator itself: @event_stream, or Response(stream_with_context(generator))"
    ),
    "stream_whole_from_start": Row(
        HOLDS, "joined_body", "return a generator of the events: @event_stream, or Response(stream_with_context(...))"
    ),
    "hook_compresses": Row(HOLDS, "compression", _NO_COMPRESSOR),
    "hook_holds": Row(HOLDS, "body_reading_hook", _PASS_ON),
    "response_joins": Row(HOLDS, "joined_body", "a response class of yours that encodes each piece as it comes"),
    "view_compresses": Row(HOLDS, "compression", "flush after each piece (Z_SYNC_FLUSH), or leave it to a proxy"),
    "middleware_compresses": Row(HOLDS, "compression", _NO_COMPRESSOR),
    "middleware_joins": Row(HOLDS, "joined_body", "return the iterable itself, or " + _PASS_ON),
    "middleware_holds": Row(HOLDS, "whole_body_filter", _PASS_ON),
    "one_piece_late": Row(HOLDS, "whole_body_filter", "hand a piece on before the next one is asked for"),
    "unstreamed_upstream": Row(
        HOLDS,
        "late_upstream_reader",
        "ask it as a stream (requests.post(..., stream=True)), read as it comes; or flaskstream.Upstream",
    ),
    "upstream_read_late": Row(
        HOLDS, "late_upstream_reader", "flaskstream.Upstream, which hands over what is there, however it is framed"
    ),
    "library_holds": Row(HOLDS, "client_library", _REAL_LIBRARY),
    "library_would_hold": Row(FAULT, "client_library", _REAL_LIBRARY),
    "late_patching": Row(
        FAULT, "", "have gevent patch first: gunicorn -c python:flaskstream.gunicorn_conf, and import these in the app"
    ),
    "no_tls": Row(FAULT, "", "see why ssl.create_default_context() fails here: no https upstream can be reached"),
    "drops_close": Row(
        FAULT, "", "call close() of the body in a finally, or werkzeug.wsgi.ClosingIterator(pieces, body.close)"
    ),
    "yields_while_closing": Row(
        FAULT, "", "no yield in finally, and except Exception in place of BaseException: a generator is closed there"
    ),
    "guard_raised": Row(FAULT, "body_reading_hook", _LEAVE_ALONE),
    "view_failed": Row(WARNING, "", "what can fail goes before the first yield, or @event_stream, which waits for it"),
    "hook_drops_close": Row(
        WARNING, "", "pass close() on: response.call_on_close(body.close), or close the body in a finally"
    ),
    "sync_worker": Row(
        WARNING, "no_free_worker", 'worker_class = "gevent": gunicorn -c python:flaskstream.gunicorn_conf'
    ),
    "unflushed_print": Row(WARNING, "", "print(..., flush=True), or PYTHONUNBUFFERED=1, or logging"),
    "blocked_hub": Row(
        WARNING, "blocked_hub", "gevent.sleep(0) between pieces of work, or gevent.get_hub().threadpool.apply(...)"
    ),
    "asyncio_run": Row(WARNING, "blocked_hub", "call the synchronous client, or run it in gevent.get_hub().threadpool"),
    "blocking_module": Row(NOTE, "blocked_hub", "short queries only, or gevent.get_hub().threadpool.apply(...)"),
    "guarded": Row(NOTE, "", "nothing for the stream; what it logs of streams is empty"),
    "page_joined_in_view": Row(
        NOTE, "", "none, for a page; for a stream: return the generator itself, with @event_stream"
    ),
    "may_read_bodies": Row(NOTE, "body_reading_hook", "give a PATH whose view streams, and this is tried"),
}


def found(code: str, sentence: str, *places: Place | None) -> Finding:
    """Return a finding with those places that are known, each once."""
    return Finding(code, sentence, tuple(dict.fromkeys(place for place in places if place is not None)))


def count(number: int, noun: str) -> str:
    """Return "no piece", "1 piece", "2 pieces"."""
    return f"{number or 'no'} {noun}{'s' if number > 1 else ''}"
