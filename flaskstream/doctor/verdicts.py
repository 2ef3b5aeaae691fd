"""What a hop does to a stream: a table of rules over all that was seen of it, the first that fits. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.experiments import AGAIN
from flaskstream.doctor.looks import Look
from flaskstream.doctor.shapes import is_impossible

CODINGS = ("browser", "br", "zstd", "gzip")
"""The looks that offered a coding, the most usual first."""

UNEVEN_SECONDS = 0.3
"""Ticks that are late without order, and by no more, come over a way that is uneven: nothing holds them."""


@dataclass(frozen=True)
class Verdict:
    """What a hop does.

    Attributes:
        name: "streams", "held_to_end", "bursts_by_size", "bursts_by_time", "one_event_late", "serialised", "replayed",
            "source_stalled", "cut_by_silence", "cut_by_duration", "truncated", "headers_late", "unreachable" or
            "not_a_stream".
        sentence: the same with figures.
        look: the name of the look that shows it.
        seconds: for "bursts_by_time": the time after which what waits is passed on.
        is_inherited: what is seen here comes from the hop behind: this one adds nothing to it, and so "streams".
    """

    name: str
    sentence: str
    look: str = "first"
    seconds: float = 0.0
    is_inherited: bool = False


def verdict_of(evidence: Evidence) -> Verdict:
    """Return the verdict on a hop."""
    for rule in RULES:
        verdict = rule(evidence)
        if verdict is not None:
            return verdict
    first = evidence.first
    if not first.variant.is_probe:
        return Verdict("streams", f"{len(first.ticks)} events came as they were made, over {_ms(first.ended_at)}")
    return Verdict("streams", f"{len(first.ticks)} ticks, each {_ms(first.median_delay or 0.0)} after it was sent")


def held_coding(evidence: Evidence) -> str:
    """Return the look with the coding that is held, where none is held without one; "": there is none."""
    if evidence.held("first"):
        return ""
    return next((name for name in CODINGS if evidence.held(name) and evidence.looks[name].coding != "identity"), "")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _unreachable(evidence: Evidence) -> Verdict | None:
    if evidence.kind("first") != "unreachable":
        return None
    return Verdict("unreachable", evidence.first.error or "no answer came")


def _not_a_stream(evidence: Evidence) -> Verdict | None:
    first = evidence.first
    if evidence.kind("first") != "not_a_stream":
        return None
    if first.is_answer and first.strangers:
        told = f"{first.strangers} events came, and none is a tick: it is no probe, or a filter rewrites what passes"
        return Verdict("not_a_stream", told)
    if first.is_answer and not first.variant.is_probe:
        count = len(first.ticks)
        events = "no event came" if not count else f"{count} event{'s'[: count - 1]} came, too few to judge by"
        return Verdict("not_a_stream", f"{events}; the status is {first.status}, the type {_type_of(first)}")
    return Verdict("not_a_stream", f"the status is {first.status}, the type {_type_of(first)}, and no tick came")


def _type_of(look: Look) -> str:
    return look.headers.get("content-type", "not given")


def _silent(evidence: Evidence) -> Verdict | None:
    if evidence.kind("first") != "silent":
        return None
    told = "the headers came, and then no tick" if evidence.first.headers_at is not None else "no tick came"
    return Verdict("not_a_stream", f"{told} within {_ms(evidence.first.ended_at)}: held for longer, or never sent")


def _replayed(evidence: Evidence) -> Verdict | None:
    clocks = [look.hello["clock"] for look in evidence.looks.values() if "clock" in look.hello]
    if len(clocks) == len(set(clocks)) and evidence.kind("first") != "replayed":
        return None
    return Verdict("replayed", "what came had been sent before it was asked for")


def _keeps_others_waiting(evidence: Evidence) -> Verdict | None:
    """What the probe, asked beside an endpoint that streams, shows of both."""
    if evidence.kept_waiting:
        sentence = f"the probe, asked while this streamed, began {_ms(evidence.kept_waiting)} late, when this had ended"
        return Verdict("serialised", sentence, "beside")
    if evidence.kind("beside") != "source_stalled":
        return None
    stall = _ms(evidence.looks["beside"].stall)
    return Verdict("source_stalled", f"while this streamed, the probe was up to {stall} late with its ticks", "beside")


def _impossible(evidence: Evidence) -> Verdict | None:
    """From stamps that cannot be nothing follows."""
    if evidence.kind("first") != "impossible":
        return None
    tick = next(tick for tick in evidence.first.ticks if is_impossible(tick))
    early, late = tick.due - tick.sent, tick.sent - tick.came
    claim = f"{_ms(early)} before it was due" if early > late else f"{_ms(late)} after it came"
    told = f"tick {tick.number} says that it was sent {claim}"
    return Verdict("not_a_stream", f"{told}, which cannot be: it is no probe, or something rewrites what passes")


def _refused(evidence: Evidence) -> Verdict | None:
    """Who has no room for a second stream is no better than who lets it wait."""
    if not evidence.refused:
        return None
    return Verdict("serialised", f"of two streams at once one was refused, with {evidence.refused}", "two")


def _serialised(evidence: Evidence) -> Verdict | None:
    if not evidence.waited:
        return None
    sentence = f"the second of two streams began {_ms(evidence.waited)} late, when the first had ended"
    return Verdict("serialised", sentence, "two")


def _cut(evidence: Evidence) -> Verdict | None:
    for name, again in AGAIN.items():
        if evidence.kind(name) in ("cut", "silent"):
            return _cut_in(evidence, name, again)
    if evidence.kind("silence") not in ("cut_in_silence", "cut"):
        return None
    cut = evidence.looks["silence"]
    quiet = cut.ended_at - (cut.ticks[-1].came if cut.ticks else 0.0)
    return Verdict("cut_by_silence", f"the stream was cut after {_ms(quiet)} of silence", "silence")


def _cut_in(evidence: Evidence, name: str, again: str) -> Verdict:
    look = evidence.looks[name]
    if look.ended == "malformed":
        return Verdict("truncated", f"its bytes are no sound answer: {look.error}", name)
    missing = f"with {look.missing} ticks missing" if look.missing else "when all ticks had come, without its end"
    told = f"after {_ms(look.ended_at)}" + (f", {missing}" if look.variant.is_probe else "")
    told += f" ({look.error})" if look.error else ""
    if not evidence.cut_alike(name, again):
        return Verdict("truncated", f"the stream ended {told}", name)
    if name == "first" and evidence.cut_after_bytes:
        at = f"about {evidence.cut_after_bytes} bytes"
        return Verdict("truncated", f"each stream was cut after {at}, sooner where they come faster ({told})", name)
    quiet = f"{_ms(look.silences[-1])} of silence"
    if evidence.outlived_by_busier(name):
        return Verdict("cut_by_silence", f"the stream was cut after {quiet}, and lives on without one", name)
    if evidence.outlived(name):
        return Verdict("truncated", f"the stream ended {told}", name)
    if evidence.cut_when_quiet(name):
        return Verdict("truncated", f"each stream was cut {told}: for its age, or for {quiet}", name)
    return Verdict("cut_by_duration", f"each stream was cut {told}", name)


def _altered(evidence: Evidence) -> Verdict | None:
    """Ticks that are lost, doubled or out of order in a stream that ends as it should: something rewrites it."""
    first = evidence.first
    numbers = [tick.number for tick in first.ticks]
    if not first.variant.is_probe or not first.is_whole or numbers == list(range(first.variant.count + 1)):
        return None
    lost = f"{first.missing} of {first.variant.count + 1} ticks never came"
    told = lost if first.missing > 0 else "the ticks are not in their order"
    return Verdict("truncated", f"{told}, though the stream ended as it should")


def _source_stalled(evidence: Evidence) -> Verdict | None:
    if evidence.kind("first") != "source_stalled":
        return None
    return Verdict("source_stalled", f"the app itself was up to {_ms(evidence.first.stall)} late with its ticks")


def _held(evidence: Evidence) -> Verdict | None:
    kind, first = evidence.kind("first"), evidence.first
    if not evidence.held("first"):
        return None
    if evidence.is_throttled:
        longest = _ms(evidence.closely.longest)
        sentence = f"each tick came alone, and later than the one before, up to {longest} late: the rate is limited"
        return Verdict("bursts_by_size", sentence, "long" if "long" in evidence.looks else "first")
    if evidence.pause is not None:
        paused = f"what waits is passed on after a pause of {_ms(evidence.pause)}, and never while more comes"
        return Verdict("bursts_by_time", paused, seconds=evidence.pause)
    if 0 < evidence.uneven <= UNEVEN_SECONDS:
        late = f"{len(first.ticks)} ticks, up to {_ms(evidence.uneven)} late, without order: the way is uneven"
        return Verdict("streams", late)
    if evidence.timer:
        sentence = f"what waits is passed on after {_ms(evidence.timer)}"
        return Verdict("bursts_by_time", sentence, "slow", evidence.timer)
    if evidence.batch_ticks:
        return Verdict("bursts_by_size", f"{evidence.batch_ticks} ticks came at a time, whatever their size", "long")
    if evidence.late_by:
        with_which = "the next one" if evidence.late_by == 1 else f"the {evidence.late_by} after it"
        delay = _ms(first.median_delay or 0.0)
        return Verdict("one_event_late", f"each tick came with {with_which}, {delay} after it was sent")
    if evidence.first_block_seconds:
        seconds = _ms(evidence.first_block_seconds)
        return Verdict("headers_late", f"nothing came in the first {seconds}, whatever its size", "long")
    if evidence.first_block_bytes:
        return Verdict(
            "headers_late", f"nothing came before about {evidence.first_block_bytes} bytes were there", "long"
        )
    if evidence.buffer_bytes:
        return Verdict(
            "bursts_by_size", f"about {evidence.buffer_bytes} bytes came at a time{_to_the_end(evidence)}", "pad"
        )
    return _held_as(kind, first.median_delay or 0.0, first)


def _to_the_end(evidence: Evidence) -> str:
    return ", which the small ticks did not fill before the end" if evidence.kind("first") == "held_to_end" else ""


def _held_as(kind: str, delay: float, look: Look) -> Verdict:
    name = look.variant.name
    if kind == "first_block":
        return Verdict(
            "headers_late",
            f"the first {look.bursts[0].ticks} ticks came together, {_ms(look.bursts[0].came)} after the request",
            name,
        )
    if kind == "held_to_end":
        return Verdict("held_to_end", f"all came at once after {_ms(look.ended_at)}, when the last had been sent", name)
    if kind == "one_late":
        return Verdict("one_event_late", f"each tick came with the next one, {_ms(delay)} after it was sent", name)
    if not look.variant.is_probe:
        return Verdict("bursts_by_size", f"{len(look.ticks)} events came in {len(look.bursts)} bursts", name)
    return Verdict(
        "bursts_by_time" if kind == "lagged" else "bursts_by_size",
        f"{len(look.ticks)} ticks came in {len(look.bursts)} bursts, {_ms(delay)} late",
        name,
    )


def _held_in_a_coding(evidence: Evidence) -> Verdict | None:
    name = held_coding(evidence)
    if not name:
        return None
    look = evidence.looks[name]
    verdict = _held_as(evidence.kind(name), look.median_delay or 0.0, look)
    return Verdict(verdict.name, f"with {look.coding} {verdict.sentence}; without a coding it streams", name)


def _held_in_http2(evidence: Evidence) -> Verdict | None:
    if not evidence.streamed("first") or not evidence.held("http2"):
        return None
    look = evidence.looks["http2"]
    verdict = _held_as(evidence.kind("http2"), look.median_delay or 0.0, look)
    return Verdict(verdict.name, f"by HTTP/2 {verdict.sentence}; by HTTP/1.1 it streams", "http2")


RULES: tuple[Callable[[Evidence], Verdict | None], ...] = (
    _unreachable,
    _not_a_stream,
    _silent,
    _replayed,
    _impossible,
    _cut,
    _altered,
    _source_stalled,
    _serialised,
    _refused,
    _held,
    _held_in_a_coding,
    _held_in_http2,
    _keeps_others_waiting,
)
