"""Which looks to take next, by what the ones before showed: a table of stages. Pure.

A hop that streams is looked at in all ways at once, and is done in five seconds; one that holds is looked at in those
ways that tell what it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.looks import Look, Variant
from flaskstream.doctor.request import speaks_http2

FIRST = Variant("first", count=15)

BROWSER_CODINGS = "gzip, deflate, br, zstd"
"""What browsers offer. Compressors disagree by coding in one and the same hop, so each is tried."""

ENDPOINT = Variant("first", is_probe=False)
ENDPOINT_OF_BROWSERS = Variant("browser", is_probe=False, accept_encoding=BROWSER_CODINGS)
"""An ordinary endpoint is asked twice, and a third time only where the second was suspect."""

_QUICK = {"count": 8, "interval_ms": 100}
"""Not faster: a tick that came with the next one must be later than what a busy machine makes late."""

BESIDE = Variant("beside", **_QUICK)  # type: ignore[arg-type]
"""The probe while the endpoint streams: whether a view that streams lets others."""

HTTP2 = Variant("http2", http_version="2", **_QUICK)  # type: ignore[arg-type]
"""What browsers speak to an https URL whose server offers it."""

TWO = Variant("two", at_once=2, count=10, interval_ms=60)

FLOWING = (
    Variant("browser", accept_encoding=BROWSER_CODINGS, **_QUICK),  # type: ignore[arg-type]
    Variant("gzip", accept_encoding="gzip", **_QUICK),  # type: ignore[arg-type]
    Variant("br", accept_encoding="br", **_QUICK),  # type: ignore[arg-type]
    Variant("zstd", accept_encoding="zstd", **_QUICK),  # type: ignore[arg-type]
    Variant("post", method="POST", **_QUICK),  # type: ignore[arg-type]
    Variant("plain", type="plain", accept_encoding=BROWSER_CODINGS, **_QUICK),  # type: ignore[arg-type]
    Variant("ndjson", type="ndjson", accept_encoding=BROWSER_CODINGS, **_QUICK),  # type: ignore[arg-type]
    Variant("unmarked", x_accel_buffering="", **_QUICK),  # type: ignore[arg-type]
    Variant("transformable", cache_control="no-cache", accept_encoding=BROWSER_CODINGS, **_QUICK),  # type: ignore[arg-type]
    HTTP2,
    Variant("leave", leave_after=3, count=40, interval_ms=100),
    Variant("endure", count=24),
)
"""Where the first look streamed: whether it does in all ways, and for longer."""

FLOWING_ALONE = tuple(variant for variant in FLOWING if variant.name in ("browser", "gzip", "post", "leave", "endure"))
"""Where streams wait for one another: one after the other, the most telling ones."""

HELD = (
    Variant("long", count=30),
    Variant("fast", count=30, interval_ms=40),
    Variant("pad", count=30, pad=2048),
    Variant("big", count=12, pad=20_000),
    Variant("slow", count=6, interval_ms=600),
    Variant("http10", http_version="1.0", **_QUICK),  # type: ignore[arg-type]
    HTTP2,
    Variant("unmarked", x_accel_buffering="", **_QUICK),  # type: ignore[arg-type]
    Variant("plain", type="plain", **_QUICK),  # type: ignore[arg-type]
    Variant("post", method="POST", **_QUICK),  # type: ignore[arg-type]
)

"""Where it did not: what it waits for."""

AGAIN = {"first": "again", "endure": "endure_again"}
"""What repeats a look that was cut: whether it always is, and after the same time."""

CUT = (Variant("again", count=15), Variant("dense", count=100, interval_ms=15))
"""Where the first look was cut; the second one: whether it is also where no silence is as long."""

CUT_LATER = (Variant("endure_again", count=60),)

SYNC = (Variant("endure", count=60),)
"""A sync worker gives no sign of life while it streams, and is killed for that after a time that may be longer."""


def silence(seconds: float) -> Variant:
    """Return a look with a silence in it, without a heartbeat, to find out who cuts it."""
    return Variant("silence", count=4, interval_ms=100, silence_ms=int(seconds * 1000))


@dataclass(frozen=True)
class Stage:
    """Looks that are taken together, where that does not disturb what they show.

    Attributes:
        variants: of them.
        applies: whether what was seen asks for them.
    """

    variants: tuple[Variant, ...]
    applies: Callable[[Evidence], bool]


UNANSWERED = ("unreachable", "not_a_stream", "silent")
"""Kinds of a first look after which nothing more is to be seen."""


def _answers(evidence: Evidence) -> bool:
    return evidence.kind("first") not in UNANSWERED


def _flows_at_once(evidence: Evidence) -> bool:
    return evidence.streamed("first")


def _is_cut_once(evidence: Evidence, name: str) -> bool:
    return evidence.kind(name) == "cut" and AGAIN[name] not in evidence.looks


STAGES: Sequence[Stage] = (
    Stage((TWO,), _answers),
    Stage(HELD, lambda evidence: evidence.held("first")),
    Stage(FLOWING, lambda evidence: _flows_at_once(evidence) and may_run_together(evidence)),
    Stage(FLOWING_ALONE, lambda evidence: _flows_at_once(evidence) and not may_run_together(evidence)),
    Stage(SYNC, lambda evidence: evidence.streamed("endure") and evidence.first.hello.get("worker") == "sync"),
    Stage(CUT[:1], lambda evidence: _is_cut_once(evidence, "first")),
    Stage(CUT[1:], lambda evidence: evidence.kind("first") == "cut"),
    Stage(CUT_LATER, lambda evidence: _is_cut_once(evidence, "endure")),
)
"""After the first look, in this order."""


def possible(variants: Sequence[Variant], url: str) -> tuple[Variant, ...]:
    """Return those that can be tried at this URL: HTTP/2 over TLS, where there is the package for it."""
    has_http2 = url.startswith("https:") and speaks_http2()
    return tuple(variant for variant in variants if variant.http_version != "2" or has_http2)


def is_offered(look: Look) -> bool:
    """Tell whether the hop knows what it was asked for: a server of HTTP/1 alone is no fault."""
    return look.variant.http_version != "2" or look.ended != "refused"


def may_run_together(evidence: Evidence) -> bool:
    """Tell whether several looks at once are like one after the other: not where streams wait for one another."""
    if evidence.waited:
        return False
    return evidence.streamed("two") or (evidence.held("two") and evidence.held("first"))
