"""Why a hop does what it does: a table of rules over what was seen. Pure.

A rule looks at one hop and at the one behind it, if that was looked at, and returns a cause with its evidence and how
sure it is, or nothing. Where two causes cannot be told apart, both are returned, with the measurement that would tell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Container

from flaskstream.doctor.diagnosis import Cause
from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.experiments import AGAIN
from flaskstream.doctor.snippets import with_snippet
from flaskstream.doctor.verdicts import Verdict, held_coding
from flaskstream.probe.plan import NUMBERS

CORK_SECONDS = (0.15, 0.26)
"""Linux lets a corked segment go after 200 ms."""

SURE, LIKELY, POSSIBLE = 0.9, 0.7, 0.4

Behind = "Evidence | None"


def causes_of(evidence: Evidence, verdict: Verdict, behind: Evidence | None = None) -> tuple[Cause, ...]:
    """Return the causes, the most likely first; none for a hop that streams.

    Of two that are as likely the one comes first whose rule does: those that are nearer to what was seen stand there.

    Args:
        evidence: of the hop.
        verdict: on it.
        behind: what was seen of the hop behind it; `None`: it was not looked at.
    """
    if verdict.name in ("streams", "unreachable"):
        return ()
    if verdict.name == "not_a_stream":
        return (_no_probe(evidence, verdict, behind),)
    if verdict.look == "http2":
        return (replace(_HTTP2, evidence=verdict.sentence),)
    found = [cause for rule in RULES for cause in [rule(evidence, verdict, behind)] if cause is not None]
    found.sort(key=lambda cause: -cause.confidence)
    return with_snippet(found, evidence) or (_UNKNOWN,)


_UNKNOWN = Cause(
    "unknown",
    0.1,
    "no rule explains what was seen",
    "look at the hop behind it: give its URL too",
    "the same probe at the hop behind this one",
)


def _no_probe(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause:
    cure = _NO_TICK_CURES.get(evidence.kind("first"))
    if cure:
        return replace(_UNKNOWN, evidence=verdict.sentence, cure=cure)
    status = evidence.first.status or 0
    if status in _FROM_BEHIND and behind is not None and behind.first.ticks:
        return Cause("unknown", 0.1, f"{verdict.sentence}; the hop behind it answers", _IS_UP)
    cure = next((cure for statuses, cure in _NO_PROBE_CURES if status in statuses), _NAME_THE_PROBE)
    return Cause("unknown", 0.1, verdict.sentence, cure)


_NO_TICK_CURES = {
    "silent": "see that the hop behind it sends: give its URL too",
    "impossible": "find what answers in the place of the probe, or rewrites its ticks: give the URL of the hop behind",
}
_FROM_BEHIND = (502, 503, 504)
_IS_UP = "see to which address this hop passes it on, and in its error log why it refuses: a limit, a health check"
_NAME_THE_PROBE = "name the probe, which create_blueprint(debug=['probe']) answers at its prefix and /probe"
_NO_PROBE_CURES: tuple[tuple[Container[int], str], ...] = (
    ((101,), "name a URL that answers in HTTP: this one changes to another protocol"),
    ((401, 403, 407), "log in: --header 'Authorization: ...' or --header 'Cookie: ...'"),
    (range(300, 400), "name the URL to which this one leads"),
    (_FROM_BEHIND, "see that the hop behind it is up, and that it is asked at the right address"),
    (range(500, 600), "look in the log of the app: it failed"),
)


_HTTP2 = Cause(
    "proxy_buffering",
    LIKELY,
    "",
    "switch off the buffering on the HTTP/2 side of this hop, or HTTP/2 for this host",
    "the same hop without HTTP/2",
)


def _is_proxied(evidence: Evidence, behind: Evidence | None) -> bool | None:
    """Tell whether something stands before the app here: a proxy, as it says, or as the hop behind shows."""
    if evidence.is_direct is not None:
        return not evidence.is_direct
    return True if behind is not None or evidence.product else None


def _compression(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    name = held_coding(evidence)
    if not name or verdict.look != name:
        return None
    coding = evidence.looks[name].coding
    held = [other for other in ("gzip", "br", "zstd") if evidence.held(other)]
    fine = [other for other in ("gzip", "br", "zstd") if evidence.streamed(other)]
    whose = "the app's process" if _is_proxied(evidence, behind) is False else evidence.product or "this hop"
    told = f"held with {', '.join(held) or coding}" + (f", prompt with {', '.join(fine)}" if fine else "")
    return Cause(
        "compression",
        SURE,
        f"{told}; the same ticks stream where no coding is offered",
        f"keep text/event-stream out of the compressor of {whose}, or have it flush after each event",
    )


def _compression_unasked(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    """What is compressed for everybody cannot be compared with what is not."""
    coding = evidence.first.coding
    if not evidence.held("first") or coding == "identity":
        return None
    return Cause(
        "compression",
        LIKELY,
        f"it comes in {coding}, which nobody asked for, and {verdict.sentence}",
        "keep text/event-stream out of the compressor, or have it flush after each event",
        "the same without the compressor",
    )


def _cork(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if (
        verdict.name != "bursts_by_time"
        or evidence.pause is not None
        or not CORK_SECONDS[0] <= verdict.seconds <= CORK_SECONDS[1]
    ):
        return None
    is_sure = evidence.streamed("http10")
    return Cause(
        "kernel_cork",
        SURE if is_sure else POSSIBLE / 2,
        f"each tick waits up to {verdict.seconds * 1000:.0f} ms, at two paces"
        + (", and not for a client of HTTP/1.0" if is_sure else ", also for a client of HTTP/1.0"),
        "have the proxy send at once: HAProxy: option http-no-delay",
        "" if is_sure else "the hop behind this one, by itself: a proxy may speak HTTP/1.1 to it for any client",
    )


def _timer(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    cork = _cork(evidence, verdict, behind)
    if verdict.name != "bursts_by_time" or (cork is not None and cork.confidence == SURE):
        return None
    if evidence.pause is not None:
        return _buffering(evidence, behind, verdict.sentence)
    if evidence.uneven:
        uneven = f"{verdict.sentence}; but without order: the way may be uneven, and nothing hold"
        return replace(_buffering(evidence, behind, uneven), confidence=POSSIBLE / 2, would_tell=_LOOK_BEHIND)
    return _buffering(evidence, behind, f"what waits is passed on every {verdict.seconds * 1000:.0f} ms")


def _throttled(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "bursts_by_size" or not evidence.is_throttled:
        return None
    return Cause(
        "proxy_buffering",
        POSSIBLE,
        "delays grow steadily: a rate limit (limit_rate, bwlimit, ...), or a reader that is slower than the ticks",
        "raise the limit on the rate of an answer in this hop (nginx: limit_rate; HAProxy: filter bwlim-out)",
        "" if behind else _LOOK_BEHIND,
    )


def _size(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "bursts_by_size" or held_coding(evidence) or evidence.is_throttled:
        return None
    if evidence.batch_ticks:
        seen = f"{evidence.batch_ticks} ticks come at a time, at two sizes of tick"
        sure = SURE if _is_proxied(evidence, behind) and behind is not None else POSSIBLE
        return replace(_buffering(evidence, behind, seen), confidence=sure)
    size = evidence.buffer_bytes or evidence.closely.size
    return _buffering(evidence, behind, f"about {size} bytes come at a time, whatever the size of a tick")


def _buffering(evidence: Evidence, behind: Evidence | None, seen: str) -> Cause:
    proxied = _is_proxied(evidence, behind)
    if proxied is False:
        return Cause(
            "proxy_buffering",
            POSSIBLE,
            f"{seen}; and no proxy is between: it is the app's server, or a middleware",
            "switch off the output buffer of the WSGI server (waitress: send_bytes=1) or of the middleware",
            "flaskstream check module:app",
        )
    cure = buffering_cure(evidence.product)
    told = f"{seen}, although the app said X-Accel-Buffering: no"
    is_sure = proxied and evidence.first.coding == "identity"
    return Cause("proxy_buffering", SURE if is_sure else POSSIBLE, told, cure, "" if behind else _LOOK_BEHIND)


def buffering_cure(product: str) -> str:
    """Return what to change in a hop that buffers; "" is one that does not say what it is."""
    return _BUFFERING_CURES.get(product, "switch off the buffering of responses for this route")


_LOOK_BEHIND = "the hop behind this one: what it does itself is not this hop's"

_BUFFERING_CURES = {
    "nginx": "proxy_buffering off; in this location (an nginx behind it eats the header, or this one ignores it)",
    "caddy": "no response_buffers in reverse_proxy; and no Content-Length on a stream that is no text/event-stream",
    "apache": "take the buffering filter (mod_buffer, mod_ext_filter, mod_ratelimit) off this location",
}


def _whole(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "held_to_end" or held_coding(evidence):
        return None
    has_length = "content-length" in evidence.first.headers
    seen = "nothing came before the end, at any size of tick" + (
        ", and then with a Content-Length" if has_length else ""
    )
    if not _is_proxied(evidence, behind):
        return None
    cure = "take the filter that reads whole responses off this route"
    if has_length or evidence.product == "lighttpd":
        cure += " (lighttpd does it by itself: server.stream-response-body = 2)"
    return Cause("whole_body_filter", SURE if behind else LIKELY, seen, cure, "" if behind else _LOOK_BEHIND)


def _in_process(name: str, cure: str, with_length: float, without: float) -> Rule:
    def rule(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
        is_hidden = _is_proxied(evidence, behind)
        if verdict.name != "held_to_end" or held_coding(evidence) or (is_hidden and behind is not None):
            return None
        has_length = "content-length" in evidence.first.headers
        seen = "nothing came before the end, at any size of tick"
        if has_length:
            seen += ", and then with a Content-Length, which only who has read the whole body can know"
        confidence = with_length if has_length else without
        if is_hidden:
            return Cause(name, confidence / 2, f"{seen}; the app behind is not seen by itself", cure, _LOOK_BEHIND)
        return Cause(name, confidence, seen, cure, "flaskstream check module:app")

    return rule


Rule = Callable[[Evidence, Verdict, "Evidence | None"], "Cause | None"]


def _accumulator(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    is_hops = _is_proxied(evidence, behind)
    if verdict.name != "bursts_by_size" or not evidence.batch_ticks or (is_hops and behind is not None):
        return None  # the app behind is seen by itself: it does not collect, or not so many
    return Cause(
        "token_accumulator",
        POSSIBLE if is_hops else SURE,
        f"{evidence.batch_ticks} ticks come at a time, at two sizes of tick",
        "send each token as it comes: collect on the side for whatever needs more",
        _LOOK_BEHIND if is_hops else "",
    )


def _one_late(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "one_event_late" or held_coding(evidence):
        return None
    return Cause(
        "proxy_buffering",
        LIKELY if _is_proxied(evidence, behind) else POSSIBLE,
        "each tick comes with the next one, at two paces: a filter holds back the newest lines",
        "take the filter that works line by line (mod_sed, a compressor without flush) off this route",
    )


def _no_worker(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "serialised":
        return None
    worker = str(evidence.first.hello.get("worker", ""))
    second = f"one is refused, with {evidence.refused}" if evidence.refused else "the second waits for the first"
    seen = f"a stream alone is prompt; of two, {second}" + (f" (worker: {worker})" if worker else "")
    if (behind is not None and behind.streamed("two")) or worker == "gevent":
        return Cause(
            "no_free_worker",
            LIKELY if behind is not None else POSSIBLE,
            f"{seen}; the app has room for both: this hop does not",
            "raise the limit of this hop for this route (nginx: limit_req, limit_conn; HAProxy: maxconn)",
            "" if behind is not None else "the same at the hop behind",
        )
    return Cause(
        "no_free_worker",
        SURE,
        seen,
        'worker_class = "gevent" (gunicorn -c python:flaskstream.gunicorn_conf), or more threads than open streams',
    )


def _worker_timeout(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    worker = evidence.first.hello.get("worker")
    if verdict.name not in ("cut_by_duration", "truncated") or worker != "sync":
        return None
    return Cause(
        "worker_timeout",
        SURE if verdict.name == "cut_by_duration" else LIKELY,
        f"{verdict.sentence}; the worker is a sync one, which gives no sign of life while it sends",
        'worker_class = "gevent": it gives its sign of life beside the streams',
    )


_RAISE_LIMIT = "raise the limit for how long a response may take, in the hop that cuts"
_HEARTBEAT = "a heartbeat shorter than that (heartbeat=...), or a longer read timeout in this hop"


def _age_or_silence(name: str, cure: str) -> Rule:
    """What a cut may come from where its streams were never as quiet before."""

    def rule(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
        is_either = evidence.cut_when_quiet(verdict.look) and not evidence.outlived(verdict.look)
        again = AGAIN.get(verdict.look, "")
        if evidence.cut_after_bytes:
            return None
        if verdict.name != "truncated" or not evidence.cut_alike(verdict.look, again) or not is_either:
            return None
        look = evidence.looks[verdict.look]
        interval_ms = max(NUMBERS["interval"].lowest, int(look.silences[-1] * 1000 / 3))
        closer = f"ticks that come closer, interval={interval_ms}: an idle timeout lets them live on, a limit does not"
        tells = closer if look.ticks else "the same at the hop behind this one, from where ticks may come"
        return Cause(name, POSSIBLE, verdict.sentence, cure, tells)

    return rule


def _size_limit(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "truncated" or not evidence.cut_after_bytes:
        return None
    cure = "raise the limit on the size of an answer, in the hop that cuts"
    return Cause("unknown", 0.1, verdict.sentence, cure, "" if behind else "the same at the hop behind")


def _duration(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "cut_by_duration":
        return None
    is_sync = evidence.first.hello.get("worker") == "sync"
    return Cause(
        "duration_limit",
        POSSIBLE / 2 if is_sync else LIKELY,
        verdict.sentence,
        _RAISE_LIMIT,
        "the same at the hop behind",
    )


def _idle(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "cut_by_silence":
        return None
    return Cause(
        "idle_timeout",
        SURE,
        verdict.sentence,
        _HEARTBEAT,
    )


def _hub(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "source_stalled":
        return None
    return Cause(
        "blocked_hub",
        LIKELY,
        f"{verdict.sentence}, and then they came at once: something in its process lets nobody else run",
        "find what computes or waits outside of gevent (a C library, a long loop), and give it a thread",
    )


def _cache(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "replayed":
        return None
    return Cause("cache", SURE, verdict.sentence, "Cache-Control: no-store on the stream, or no cache for this route")


def _first_block(evidence: Evidence, verdict: Verdict, behind: Evidence | None) -> Cause | None:
    if verdict.name != "headers_late":
        return None
    return _buffering(evidence, behind, verdict.sentence)


RULES: tuple[Rule, ...] = (
    _compression,
    _compression_unasked,
    _cork,
    _timer,
    _throttled,
    _size,
    _whole,
    _in_process("joined_body", "return the generator itself from the view", POSSIBLE, LIKELY),
    _in_process("body_reading_hook", "leave streamed responses alone in after_request hooks", LIKELY, POSSIBLE / 2),
    _accumulator,
    _one_late,
    _first_block,
    _no_worker,
    _worker_timeout,
    _size_limit,
    _duration,
    _idle,
    _age_or_silence("idle_timeout", _HEARTBEAT),
    _age_or_silence("duration_limit", _RAISE_LIMIT),
    _hub,
    _cache,
)
