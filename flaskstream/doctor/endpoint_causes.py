"""Why an ordinary endpoint does not stream: what the probe beside it shares is not the view's fault. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable
from urllib.parse import urlsplit

from flaskstream.doctor.causes import buffering_cure
from flaskstream.doctor.diagnosis import Cause
from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.verdicts import Verdict, held_coding

_TELLS = "the view's own code, and flaskstream check module:app PATH"
_NO_PROBE = Cause(
    "unknown",
    0.1,
    "its events carry no stamps, and no probe was asked beside it",
    "mount the probe, create_blueprint(debug=['probe']), and name it with --probe URL",
    "the probe beside it: if that streams, the view holds, and if not, a hop does",
)


def causes_of_endpoint(
    evidence: Evidence, verdict: Verdict, beside: Evidence | None, behind: Evidence | None = None
) -> tuple[Cause, ...]:
    """Return the causes, the most likely first; of two that are as likely, the one whose rule comes first.

    Args:
        evidence: of the endpoint.
        verdict: on it.
        beside: what was seen of the probe in the same app, through the same hops; `None`: it was not asked.
        behind: what was seen of the endpoint one hop further in; `None`: it was not asked there.
    """
    if verdict.name in ("streams", "unreachable", "not_a_stream"):
        return ()
    if behind is not None and behind.streamed("first") and not evidence.streamed("first"):
        return _between(evidence, verdict)
    if verdict.name in ("truncated", "cut_by_duration", "cut_by_silence"):
        return (_CUT,)
    if held_coding(evidence):
        return (_coding(evidence),)
    if beside is None:
        return (_NO_PROBE,)
    if not beside.streamed("first"):
        return ()  # and the probe's own verdict says why
    found = [rule(evidence) for rule in _RULES[verdict.name]]
    if not is_beside(evidence, beside):
        found = [_ELSEWHERE, *(replace(cause, confidence=cause.confidence / 2) for cause in found)]
    return tuple(sorted(found, key=lambda cause: -cause.confidence))


def is_beside(evidence: Evidence, probe: Evidence) -> bool:
    """Tell whether the probe is asked at the same place as the endpoint, and so through the same hops."""
    return urlsplit(evidence.url).netloc == urlsplit(probe.url).netloc


_ELSEWHERE = Cause(
    "proxy_buffering",
    0.4,
    "this is held, and the probe streams, which was asked at another place: a hop between may hold",
    "name the probe at the same place as the endpoint: what is held there too is a hop's doing",
    "the probe at the same place, --probe",
)


def _between(evidence: Evidence, verdict: Verdict) -> tuple[Cause, ...]:
    """The view streams one hop further in: it is innocent, and so is all that is behind it."""
    hop, tells = evidence.product or "this hop", "the probe at each hop: how much it holds, or for how long"
    if verdict.name in ("truncated", "cut_by_duration", "cut_by_silence"):
        seen = f"the same answer is whole one hop further in: {hop} cuts it"
        return (Cause("unknown", 0.4, seen, f"raise the limits on an answer's time and silence in {hop}", tells),)
    seen = f"the same answer streams one hop further in: {hop} holds it"
    buffering = Cause("proxy_buffering", 0.7, seen, buffering_cure(evidence.product), tells)
    if verdict.name != "held_to_end" or evidence.product == "nginx":
        return (buffering,)
    cure = "take the filter that reads whole responses off this route"
    return (buffering, Cause("whole_body_filter", 0.4, seen, cure, tells))


_CUT = Cause(
    "unknown",
    0.1,
    "the answer ended before its end; an ordinary endpoint does not say whether its source, its worker or a hop did it",
    "look in the log of the app under the time; ask the probe at each hop for the timeouts of the hops (--silence)",
    "the same at the hop behind, and the app's log",
)


def _coding(evidence: Evidence) -> Cause:
    look = evidence.looks[held_coding(evidence)]
    return Cause(
        "compression",
        0.9,
        f"held with {look.coding}; the same answer streams where no coding is offered",
        "keep text/event-stream out of the compressor, or have it flush after each event",
    )


EARLY_SHARE = 0.5


def _began_early(evidence: Evidence) -> bool:
    """Tell whether the headers came long before the body: the view had returned by then."""
    headers_at = evidence.first.headers_at
    return headers_at is not None and headers_at < evidence.first.ended_at * EARLY_SHARE


def _joined(evidence: Evidence) -> Cause:
    knows_length = "content-length" in evidence.first.headers
    seen = "the probe beside it streams, and this came whole" + (", with a Content-Length" if knows_length else "")
    confidence = 0.8 if knows_length else 0.5
    if _began_early(evidence):
        seen, confidence = f"{seen}; but its headers came before: a view that joins has none until it is done", 0.2
    return Cause("joined_body", confidence, seen, "return the generator itself from the view", _TELLS)


def _unstreamed(evidence: Evidence) -> Cause:
    knows_length = "content-length" in evidence.first.headers
    return Cause(
        "late_upstream_reader",
        0.4 if knows_length else 0.6,
        "the probe beside it streams, and this came whole: its view may have had its answer whole from the upstream",
        "requests.post(..., stream=True) and raw.read1(), or flaskstream.Upstream",
        _TELLS,
    )


def _late_reader(evidence: Evidence) -> Cause:
    # Several events at a time were several in the upstream: a view that collects makes one of them.
    return Cause(
        "late_upstream_reader",
        0.6,
        f"the probe beside it streams, and this comes about {evidence.shape.size} bytes at a time",
        "read what is there: response.raw.read1(n, decode_content=True), or flaskstream.Upstream",
        _TELLS,
    )


def _accumulator(evidence: Evidence) -> Cause:
    return Cause(
        "token_accumulator",
        0.4,
        f"the probe beside it streams, and this comes about {evidence.shape.ticks} events at a time",
        "send each token as it comes; collect on the side for whatever needs sentences",
        _TELLS,
    )


def _occupied(evidence: Evidence) -> Cause:
    worker = str(evidence.looks["beside"].hello.get("worker", ""))
    if worker == "sync":
        seen = "the worker is a sync one, which serves nobody else before this has ended"
        return Cause("no_free_worker", 0.8, seen, 'worker_class = "gevent"', _TELLS)
    return Cause(
        "blocked_hub",
        0.8,
        "two probes at once stream, and one beside this does not: the view computes, and lets nothing else run",
        "let others run between tokens (gevent.sleep(0), which @event_stream does), or compute in a thread pool",
        _TELLS,
    )


_RULES: dict[str, tuple[Callable[[Evidence], Cause], ...]] = {
    "held_to_end": (_joined, _unstreamed),
    "bursts_by_size": (_late_reader, _accumulator),
    "bursts_by_time": (_accumulator, _late_reader),
    "one_event_late": (_late_reader,),
    "headers_late": (_unstreamed,),
    "serialised": (_occupied,),
    "source_stalled": (_occupied,),
}
