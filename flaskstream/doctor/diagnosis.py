"""What the doctor says in the end: values, and their form as JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.looks import Look
from flaskstream.doctor.verdicts import Verdict

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Cause:
    """Why a hop does what it does.

    Attributes:
        name: of the table in `causes`.
        confidence: from 0 to 1.
        evidence: what was measured that speaks for it.
        cure: what to change, in one line.
        would_tell: what to measure to be sure; "": it is sure enough.
        snippet: the configuration, where the product is known; "": there is none.
    """

    name: str
    confidence: float
    evidence: str
    cure: str
    would_tell: str = ""
    snippet: str = ""


@dataclass(frozen=True)
class Hop:
    """One hop: what was seen, what it does, and why.

    Attributes:
        evidence: all looks.
        verdict: what this hop adds to the one behind it.
        causes: the most likely first.
        notes: what is worth knowing besides, such as that leaving clients are noticed late.
    """

    evidence: Evidence
    verdict: Verdict
    causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_offender(self) -> bool:
        return self.verdict.name != "streams"


@dataclass(frozen=True)
class Diagnosis:
    """All hops, outermost first.

    Attributes:
        hops: in the order in which they were named.
        seconds: how long it took.
    """

    hops: tuple[Hop, ...]
    seconds: float = 0.0

    @property
    def offenders(self) -> tuple[int, ...]:
        """The places of the hops that are at fault, from 0."""
        return tuple(n for n, hop in enumerate(self.hops) if hop.is_offender)

    def as_json(self) -> dict[str, Any]:
        """Return what `doctor --json` prints."""
        return {
            "schema_version": SCHEMA_VERSION,
            "hops": [_hop(hop) for hop in self.hops],
            "offenders": list(self.offenders),
            "seconds": round(self.seconds, 3),
        }


def _hop(hop: Hop) -> dict[str, Any]:
    first = hop.evidence.first
    return {
        "url": hop.evidence.url,
        "verdict": hop.verdict.name,
        "sentence": hop.verdict.sentence,
        "delay_ms": {"median": _ms(first.median_delay), "max": _ms(first.max_delay)},
        "causes": [_cause(cause) for cause in hop.causes],
        "fingerprint": {"product": hop.evidence.product or None, "app": hop.evidence.server or None},
        "notes": list(hop.notes),
        "looks": {name: _look(look, hop.evidence.kind(name)) for name, look in hop.evidence.looks.items()},
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "cause": cause.name,
        "confidence": cause.confidence,
        "evidence": cause.evidence,
        "cure": cause.cure,
        "would_tell": cause.would_tell or None,
        "snippet": cause.snippet or None,
    }


def _look(look: Look, kind: str) -> dict[str, Any]:
    return {
        "shape": kind,
        "status": look.status,
        "framing": look.framing,
        "coding": look.coding,
        "headers_ms": _ms(look.headers_at),
        "delay_ms": {"median": _ms(look.median_delay), "max": _ms(look.max_delay)},
        "ticks": len(look.ticks),
        "bursts": len(look.bursts),
        "ended": look.ended,
        "ended_ms": _ms(look.ended_at),
        "error": look.error or None,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
