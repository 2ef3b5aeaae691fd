"""Configurations of proxies for one route that streams: a template for each product, and a table. Pure.

Each is run with the real program in the tests, the probe through it.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping

from flaskstream.errors import InvalidSetting

ROUTE = "/stream/"
UPSTREAM = "127.0.0.1:8000"
READ_TIMEOUT = 60
"""Seconds; four heartbeats."""

_FOLDER = Path(__file__).with_name("templates")
_ROUTE = re.compile(r"/[A-Za-z0-9._~/-]*")
_UPSTREAM = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_LAST_PORT = 65535


@dataclass(frozen=True)
class Proxy:
    """A product.

    Attributes:
        name: as the doctor's fingerprints have it.
        what: it is.
        place: where its snippet goes.
        template: the file.
        comment: how a line of comment begins.
        below: how everything below a route, which ends with a slash, is matched; `{}` is the route.
        exactly: how one path is matched.
        escaped: how the route is written there.
    """

    name: str
    what: str
    place: str
    template: str
    comment: str
    below: str
    exactly: str
    escaped: Callable[[str], str] = str

    def snippet(self, route: str = ROUTE, upstream: str = UPSTREAM, read_timeout: int = READ_TIMEOUT) -> str:
        """Return the configuration for this route alone.

        Args:
            route: a path that ends with a slash: everything below it; another: this path.
            upstream: HOST:PORT of the app's server; an address of IPv6 in brackets.
            read_timeout: seconds that the app may say nothing, heartbeats included.

        Raises:
            InvalidSetting: one of them cannot be written there.
        """
        host, port = _host_and_port(upstream)
        if not _ROUTE.fullmatch(route):
            raise InvalidSetting(f"route: expected a path like /stream/, got {route!r}")
        if read_timeout < 1:
            raise InvalidSetting(f"read_timeout: expected whole seconds from 1, got {read_timeout!r}")
        form = self.below if route.endswith("/") else self.exactly
        values = {
            "MATCH": form.format(self.escaped(route)),
            "ROUTE": route,
            "UPSTREAM": upstream,
            "HOST": host,
            "PORT": port,
            "TIMEOUT": str(read_timeout),
        }
        text = (_FOLDER / self.template).read_text("utf-8")
        told = f"{self.comment} {self.what}: {route} streams, and nothing else changes. {self.place}\n"
        return told + "".join(_filled(line, values) for line in text.splitlines(keepends=True))


def _filled(line: str, values: Mapping[str, str]) -> str:
    """Return the line of a template with its values, and its comment, which is away from the code, where it stood."""
    filled = re.sub("@([A-Z]+)@", lambda found: values[found[1]], line)
    code, gap, _ = line.partition("  #")
    if not gap or "@" not in code:
        return filled
    column = len(code) + len(gap) - 1
    before, _, after = filled.partition("  #")
    return f"{before.rstrip().ljust(column - 2)}  #{after}"


def _host_and_port(upstream: str) -> tuple[str, str]:
    """Return them apart, the host without brackets."""
    match = _UPSTREAM.fullmatch(upstream)
    if not match or not 1 <= int(match[2]) <= _LAST_PORT:
        raise InvalidSetting(f"upstream: expected HOST:PORT, the port from 1 to {_LAST_PORT}, got {upstream!r}")
    host = match[1].strip("[]")
    if host != match[1]:
        try:
            ipaddress.IPv6Address(host)
        except ValueError as error:
            raise InvalidSetting(f"upstream: expected an address of IPv6 in the brackets, got {upstream!r}") from error
    return host, match[2]


PROXIES: dict[str, Proxy] = {
    proxy.name: proxy
    for proxy in (
        Proxy("nginx", "nginx", "Inside the server block.", "nginx.conf", "#", "^~ {}", "= {}"),
        Proxy(
            "haproxy", "HAProxy", "A line in the frontend, and a backend.", "haproxy.cfg", "#", "path_beg {}", "path {}"
        ),
        Proxy("caddy", "Caddy", "Inside the site.", "Caddyfile", "#", "{}*", "{}"),
        Proxy(
            "apache",
            "Apache",
            "Inside the virtual host; needs mod_proxy_http and mod_headers.",
            "apache.conf",
            "#",
            "{}",
            "{}",
        ),
        Proxy(
            "lighttpd",
            "lighttpd",
            "After the other proxy.server; needs mod_proxy and mod_setenv.",
            "lighttpd.conf",
            "#",
            '=^ "{}"',
            '== "{}"',
        ),
        Proxy(
            "varnish",
            "Varnish",
            "At the top, after the other backends.",
            "varnish.vcl",
            "#",
            "^{}",
            "^{}($|[?])",
            re.escape,
        ),
        Proxy(
            "express",
            "Express with http-proxy-middleware 3",
            "Before compression() and all else that touches answers.",
            "express.mjs",
            "//",
            '(path) => path.startsWith("{}")',
            '(path) => path === "{}"',
        ),
    )
}
"""By their names."""


def snippet_for(product: str, route: str = ROUTE) -> str:
    """Return the snippet of a product, as the doctor's fingerprints name it; "": there is none.

    Args:
        route: the one that streams; where it cannot be written in a snippet, the usual one.
    """
    if product not in PROXIES:
        return ""
    return PROXIES[product].snippet(route if _ROUTE.fullmatch(route) else ROUTE)
