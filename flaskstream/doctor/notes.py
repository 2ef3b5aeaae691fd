"""What is worth knowing of a hop besides its verdict: a table. Pure."""

from __future__ import annotations

from statistics import median
from typing import Callable

from flaskstream.doctor.evidence import Evidence
from flaskstream.probe.plan import MAX_IGNORED

SLOW_TO_NOTICE = 1.5
"""Seconds after which a client's going has become expensive: an answer is paid for by the token."""

FAT_EVENT_BYTES = 45
FAT_EVENT_GAP = 0.25
"""Tokens of a model are a few bytes, many in a second; events like these are sentences, or no tokens at all."""


SLOW_REQUEST = 0.5
"""Seconds after which a request that is alone has waited for something on its way to the app."""


def notes_of(evidence: Evidence, behind: Evidence | None = None) -> tuple[str, ...]:
    """Return sentences.

    Args:
        evidence: of the hop.
        behind: of the one behind it, whose doings are not this hop's; `None`: it was not looked at.
    """
    notes = [*(rule(evidence) for rule in RULES), *(rule(evidence, behind) for rule in BESIDE_BEHIND)]
    return tuple(note for note in notes if note)


def _leaving(evidence: Evidence) -> str:
    look = evidence.looks.get("leave")
    if look is None or not look.is_answer or len(look.ticks) < (look.variant.leave_after or 0):
        return ""
    if look.hello.get("clock") == evidence.first.hello.get("clock"):
        return ""  # a replay: the app knows nothing of it
    if not look.left_was_asked:
        return "the app could not be asked whether it was told that a client had left"
    if look.left_noticed is None:
        return "the app was not told within 2 s that the client had left: the answer goes on, and is paid for"
    if look.left_noticed > SLOW_TO_NOTICE:
        return f"the app was told {look.left_noticed:.1f} s late that the client had left"
    return ""


def _held_where_the_first_streams(look: str, sentence: str) -> Callable[[Evidence], str]:
    def rule(evidence: Evidence) -> str:
        return sentence if evidence.streamed("first") and evidence.streamed("gzip") and evidence.held(look) else ""

    return rule


def _transformable(evidence: Evidence) -> str:
    if not evidence.held("transformable") or not evidence.streamed("browser"):
        return ""
    coding = evidence.looks["transformable"].coding
    return f"a stream that does not say Cache-Control: no-transform is held here, in {coding}; the kit's says it"


def _post(evidence: Evidence) -> str:
    return "GET is held, POST streams" if evidence.held("first") and evidence.streamed("post") else ""


def _other_type(evidence: Evidence, behind: Evidence | None) -> str:
    """What the probe sends is an event stream, and an EventSource reads nothing else."""
    if not _is_answered_probe(evidence) or _is_events(evidence) or (behind is not None and not _is_events(behind)):
        return ""
    kind = evidence.first.headers.get("content-type", "")
    told = f"the Content-Type comes as {kind}" if kind else "the Content-Type is lost on the way"
    return f"{told}, where text/event-stream was sent: an EventSource refuses that"


def _is_answered_probe(evidence: Evidence) -> bool:
    return evidence.first.variant.is_probe and evidence.first.is_answer and bool(evidence.first.ticks)


def _is_events(evidence: Evidence) -> bool:
    kind = evidence.first.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "text/event-stream" or not _is_answered_probe(evidence)


def _lost_no_transform(evidence: Evidence, behind: Evidence | None) -> str:
    if behind is None or not _is_answered_probe(evidence) or not _says_no_transform(behind):
        return ""
    if _says_no_transform(evidence):
        return ""
    return "Cache-Control: no-transform is lost here: what stands before this hop may compress, and hold"


def _says_no_transform(evidence: Evidence) -> bool:
    return "no-transform" in evidence.first.headers.get("cache-control", "").lower()


def _slow_request(evidence: Evidence, behind: Evidence | None) -> str:
    """What delays a request delays all ticks alike, and so no tick is late by its stamps."""
    waited = _request_seconds(evidence)
    added = waited - (_request_seconds(behind) if behind is not None else 0.0)
    if not evidence.first.variant.is_probe or added < SLOW_REQUEST:
        return ""
    return f"each request reaches the app {added:.1f} s late: something here makes it wait before it is passed on"


def _request_seconds(evidence: Evidence) -> float:
    """Return how long even the quickest request took to the app; 0: the clocks cannot be compared."""
    known = [look.queued for look in evidence.looks.values() if look.queued is not None and look.variant.at_once == 1]
    return max(0.0, min(known)) if len(known) > 1 else 0.0


def _http2(evidence: Evidence) -> str:
    is_other = evidence.held("first") and evidence.streamed("http2")
    told = "HTTP/1.1 is held, HTTP/2 streams: browsers may see nothing of it, and a proxy in front of this hop does"
    return told if is_other else ""


def _text(evidence: Evidence) -> str:
    is_other = evidence.held("first") and evidence.streamed("plain") and evidence.first.coding == "identity"
    return "text/plain streams where text/event-stream is held" if is_other else ""


def _far(evidence: Evidence) -> str:
    if not evidence.distance:
        return ""
    away = f"the app is {evidence.distance * 1000:.0f} ms away"
    return f"{away}, beyond what is held" if evidence.held("first") else f"{away}: nothing holds, it takes that long"


def _cut_while_held(evidence: Evidence) -> str:
    cut = evidence.cut_while_held
    if not cut:
        return ""
    ages = sorted(evidence.looks[name].ended_at for name in cut)
    span = f"{ages[0]:.1f} s" if len(ages) == 1 else f"{ages[0]:.1f} to {ages[-1]:.1f} s"
    return f"besides, streams were cut after {span}, before their end: {', '.join(cut)}"


def _uneven(evidence: Evidence) -> str:
    told = f"ticks are up to {evidence.uneven * 1000:.0f} ms late, without order: an uneven way, or a busy machine"
    return told if evidence.uneven else ""


def _fat_events(evidence: Evidence) -> str:
    if evidence.first.variant.is_probe:
        return ""
    ticks = evidence.first.ticks[:-1]  # the last one is the end
    gaps = [later.came - earlier.came for earlier, later in zip(ticks, ticks[1:])]
    if not gaps or median(gaps) < FAT_EVENT_GAP or median([tick.size for tick in ticks]) < FAT_EVENT_BYTES:
        return ""
    size = median([tick.size for tick in ticks])
    return (
        f"an event holds about {size:.0f} bytes, and one comes every {median(gaps):.1f} s: if its source says tokens,"
        " the view collects them (token_accumulator)"
    )


def _refused(evidence: Evidence) -> str:
    """Of an experiment that was refused nothing is known, which must not pass for nothing wrong."""
    refused = {name: look for name, look in evidence.looks.items() if look.status is not None and not look.is_answer}
    if evidence.refused:
        del refused["two"]  # the verdict says it
    if not refused or "first" in refused:
        return ""
    statuses = ", ".join(sorted({str(look.status) for look in refused.values()}))
    return (
        f"{len(refused)} of {len(evidence.looks)} requests were answered {statuses} ({', '.join(refused)}): a limit, or"
        " a check of requests; what they would have shown is not known"
    )


def _left_out(evidence: Evidence) -> str:
    names = ", ".join(evidence.left_out)
    told = f"there was no time for some experiments, and what they would have shown is not known: {names}"
    return told if names else ""


def _ignored(evidence: Evidence) -> str:
    """A slip in a name of its parameters the probe refuses; a token of the site's it cannot know."""
    names: object = evidence.first.hello.get("ignored")
    if not isinstance(names, list) or not names:
        return ""
    return f"the URL says more than the probe knows, which it ignored: {', '.join(map(str, names[:MAX_IGNORED]))}"


RULES: tuple[Callable[[Evidence], str], ...] = (
    _leaving,
    _refused,
    _left_out,
    _fat_events,
    _far,
    _cut_while_held,
    _uneven,
    _ignored,
    _held_where_the_first_streams("post", "GET streams, POST is held"),
    _held_where_the_first_streams(
        "unmarked", "a stream that does not say X-Accel-Buffering: no is held here; the kit's says it"
    ),
    _transformable,
    _held_where_the_first_streams("http2", "HTTP/1.1 streams, HTTP/2 is held, which is what browsers speak here"),
    _http2,
    _held_where_the_first_streams("plain", "text/plain is held where text/event-stream streams"),
    _held_where_the_first_streams("ndjson", "application/x-ndjson is held where text/event-stream streams"),
    _text,
    _post,
)

BESIDE_BEHIND: tuple[Callable[[Evidence, Evidence | None], str], ...] = (
    _other_type,
    _lost_no_transform,
    _slow_request,
)
"""Those that compare with the hop behind, or with what was asked for."""
