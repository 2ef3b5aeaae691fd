"""What a hop says of itself in its headers: a table. Pure.

Many say nothing, or pass on what the one behind them said: a name is evidence for a cure, never for a verdict.
"""

from __future__ import annotations

import re
from typing import Mapping

PRODUCTS: tuple[tuple[str, str, str], ...] = (
    ("nginx", "server", r"nginx|openresty|tengine"),
    ("cloudflare", "server", r"cloudflare"),
    ("cloudflare", "cf-ray", r"."),
    ("fastly", "x-served-by", r"cache-"),
    ("cloudfront", "via", r"cloudfront"),
    ("varnish", "via", r"varnish"),
    ("varnish", "x-varnish", r"."),
    ("squid", "via", r"squid"),
    ("caddy", "via", r"\bcaddy\b"),
    ("caddy", "server", r"^caddy"),
    ("apache", "server", r"^apache"),
    ("envoy", "server", r"^envoy"),
    ("envoy", "x-envoy-upstream-service-time", r"."),
    ("haproxy", "server", r"haproxy"),
    ("traefik", "server", r"traefik"),
    ("iis", "server", r"microsoft-iis"),
    ("google", "via", r"\bgoogle\b"),
    ("lighttpd", "server", r"^lighttpd"),
    ("express", "x-powered-by", r"^express"),
)
"""The product, the header that names it, and what is found there."""

APP_SERVERS = re.compile(
    r"gunicorn|waitress|werkzeug|cheroot|uwsgi|wsgiserver|uvicorn|granian|hypercorn", re.IGNORECASE
)
"""Servers that run an app: most proxies pass their name on as it is."""


def product_of(headers: Mapping[str, str]) -> str:
    """Return the product that the headers name, the outermost; "": none.

    Args:
        headers: of an answer, their names in lower case.
    """
    for product, header, pattern in PRODUCTS:
        if re.search(pattern, headers.get(header, ""), re.IGNORECASE):
            return product
    return ""
