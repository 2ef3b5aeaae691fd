"""The configuration that cures a cause, where it is known which product the hop is. Pure."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from flaskstream.doctor.diagnosis import Cause
from flaskstream.doctor.evidence import Evidence
from flaskstream.proxies import snippet_for

CURED = frozenset({"proxy_buffering", "compression", "idle_timeout", "kernel_cork"})
"""Causes that the configuration of a proxy for this route cures."""

USUAL = {"kernel_cork": "haproxy"}
"""Who it is, where nobody says so: HAProxy never does, and no other is known for this."""

_PROBES = ("/debug/stream", "/probe")


def with_snippet(cause: Cause, evidence: Evidence) -> Cause:
    """Return the cause with a snippet for the route that was asked, if there is one."""
    if cause.name not in CURED or evidence.is_direct:
        return cause
    product = evidence.product or USUAL.get(cause.name, "")
    return replace(cause, snippet=snippet_for(product, _route_of(evidence.url)))


def _route_of(url: str) -> str:
    """Return the prefix under which the probe is; of an ordinary endpoint its path."""
    path = urlsplit(url).path or "/"
    for probe in _PROBES:
        if path.endswith(probe):
            return path[: -len(probe)] + "/"
    return path
