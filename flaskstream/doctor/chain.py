"""Which hop of several is at fault: what each adds to the one behind it. Pure."""

from __future__ import annotations

from statistics import median
from typing import Sequence

from flaskstream.doctor.causes import causes_of
from flaskstream.doctor.diagnosis import Hop
from flaskstream.doctor.endpoint_causes import causes_of_endpoint
from flaskstream.doctor.evidence import Evidence, is_same
from flaskstream.doctor.verdicts import Verdict, verdict_of

SLOW_TO_NOTICE = 1.5
"""Seconds after which a client's going has become expensive: an answer is paid for by the token."""


def judge(seen: Sequence[Evidence]) -> tuple[Hop, ...]:
    """Return a hop for each evidence, outermost first: what it does, beyond what the one behind it does already."""
    hops = []
    for n, evidence in enumerate(seen):
        behind = seen[n + 1] if n + 1 < len(seen) else None
        hops.append(_hop(evidence, behind))
    return tuple(hops)


def _hop(evidence: Evidence, behind: Evidence | None) -> Hop:
    verdict = verdict_of(evidence)
    if behind is not None and verdict.name != "streams" and _is_inherited(evidence, verdict, behind):
        adds = Verdict("streams", f"adds nothing to what comes from behind ({verdict.sentence})", verdict.look)
        return Hop(evidence, adds, (), _notes(evidence))
    find = causes_of if evidence.first.variant.is_probe else causes_of_endpoint
    return Hop(evidence, verdict, find(evidence, verdict, behind), _notes(evidence))


def _is_inherited(evidence: Evidence, verdict: Verdict, behind: Evidence) -> bool:
    """Tell whether the hop behind shows the same, and as much of it."""
    behind_it = verdict_of(behind)
    if behind_it.name != verdict.name:
        return False
    if verdict.name == "bursts_by_size":
        return is_same(evidence.closely.size or 1, behind.closely.size or 1)
    if verdict.name == "bursts_by_time":
        return is_same(evidence.timer or 1, behind.timer or 1)
    return True


def _notes(evidence: Evidence) -> tuple[str, ...]:
    notes = []
    left = evidence.looks.get("leave")
    if left is not None and left.is_answer and len(left.ticks) >= (left.variant.leave_after or 0):
        if left.left_noticed is None:
            notes.append(
                "the app was not told within 2 s that the client had left: the answer goes on, and is paid for"
            )
        elif left.left_noticed > SLOW_TO_NOTICE:
            notes.append(f"the app was told {left.left_noticed:.1f} s late that the client had left")
    if not evidence.first.variant.is_probe:
        notes += _notes_on_events(evidence)
    if evidence.streamed("first") and evidence.held("post"):
        notes.append("GET streams, POST is held")
    if evidence.held("first") and evidence.streamed("plain"):
        notes.append("text/plain streams where text/event-stream is held")
    return tuple(notes)


FAT_EVENT_BYTES = 45
FAT_EVENT_GAP = 0.25
"""Tokens of a model are a few bytes, many in a second; events like these are sentences, or no tokens at all."""


def _notes_on_events(evidence: Evidence) -> list[str]:
    ticks = evidence.first.ticks[:-1]  # the last one is the end
    gaps = [later.came - earlier.came for earlier, later in zip(ticks, ticks[1:])]
    if not gaps or median(gaps) < FAT_EVENT_GAP or median([tick.size for tick in ticks]) < FAT_EVENT_BYTES:
        return []
    size = median([tick.size for tick in ticks])
    return [
        f"an event holds about {size:.0f} bytes, and one comes every {median(gaps):.1f} s: if its source says tokens,"
        " the view collects them (token_accumulator)"
    ]
