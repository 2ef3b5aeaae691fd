"""The configuration that cures a cause, where it is known which product the hop is. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence
from urllib.parse import urlsplit

from flaskstream.doctor.diagnosis import Cause
from flaskstream.doctor.evidence import Evidence
from flaskstream.proxies import snippet_for

CURED = frozenset({"proxy_buffering", "compression", "idle_timeout", "kernel_cork"})
"""Causes that the configuration of a proxy for this route cures."""

HOLDS_BY_ITSELF = frozenset({("whole_body_filter", "lighttpd")})
"""Causes that are the usual manner of a product, which its configuration changes, and in others somebody's filter."""

USUAL = {"kernel_cork": "haproxy"}
"""Who it is, where nobody says so: HAProxy never does, and no other is known for this."""

_PROBES = ("/debug/stream", "/probe")


def with_snippet(causes: Sequence[Cause], evidence: Evidence) -> tuple[Cause, ...]:
    """Return the causes, the first of those that it cures with the snippet for the route that was asked."""
    cured = next((cause for cause in causes if _is_cured(cause, evidence) and not evidence.is_direct), None)
    return tuple(replace(cause, snippet=_snippet(cause, evidence)) if cause is cured else cause for cause in causes)


def _is_cured(cause: Cause, evidence: Evidence) -> bool:
    return cause.name in CURED or (cause.name, evidence.product) in HOLDS_BY_ITSELF


def _snippet(cause: Cause, evidence: Evidence) -> str:
    return snippet_for(evidence.product or USUAL.get(cause.name, ""), _route_of(evidence.url))


def _route_of(url: str) -> str:
    """Return the prefix under which the probe is; of an ordinary endpoint its path."""
    path = urlsplit(url).path or "/"
    for probe in _PROBES:
        if path.endswith(probe):
            return path[: -len(probe)] + "/"
    return path
