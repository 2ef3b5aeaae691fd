"""One HTTP request, valid from birth, and its bytes in HTTP/1."""

from __future__ import annotations

import importlib.util
import re
import ssl
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from flaskstream.doctor.wire import Headers, find_header
from flaskstream.errors import InvalidSetting

MAX_BYTES = 64 * 1024 * 1024
"""The default limit for what one exchange keeps, coded and decoded together; tokens of a day are less."""

PORTS = {"http": 80, "https": 443}

BEST = "best"
VERSIONS = ("1.1", "1.0", "2", BEST)
"""Of HTTP; `BEST`: 2 where the peer offers it and the package h2 is there, else 1.1."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # RFC 9110 5.5
_VISIBLE_ASCII = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class Request:
    """What is sent: this, and nothing of our own but `Host` and `Content-Length` where they are not given.

    Args:
        url: http or https; other characters than visible ASCII are to be percent-encoded by the caller.
        headers: pairs, sent in this order.
        http_version: one of `VERSIONS`: hops treat them differently. "2" needs the package h2; over TLS it is
            negotiated, in the clear it takes a peer that is known to speak it (RFC 9113 3.3).
        timeout: seconds. The longest wait for the connection, and the longest silence.
        max_seconds: seconds after the connection was tried, when the client leaves whatever comes. `None`: stays.
        max_bytes: the client leaves when it holds more.
        tls: for https; `None`: certificates are verified as Python does by default. What it offers by ALPN is set here.

    Raises:
        InvalidSetting: it cannot be written as an HTTP request; says what was expected and what came.
    """

    url: str
    method: str = "GET"
    headers: Headers = ()
    body: bytes | None = None
    http_version: str = "1.1"
    timeout: float = 10.0
    max_seconds: float | None = None
    max_bytes: int = MAX_BYTES
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        _check_url(self.url)
        if not _TOKEN.fullmatch(self.method):
            raise InvalidSetting(f"method: expected a name like GET, got {self.method!r}")
        if self.http_version not in VERSIONS:
            raise InvalidSetting(f"http_version: expected one of {', '.join(VERSIONS)}, got {self.http_version!r}")
        if self.http_version == "2" and not speaks_http2():
            raise InvalidSetting('http_version: "2" needs h2 (pip install "flaskstream[http2]")')
        if self.timeout <= 0:
            raise InvalidSetting(f"timeout: expected seconds above 0, got {self.timeout!r}")
        for name, value in self.headers:
            if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(value)):
                raise InvalidSetting(f"headers: expected a name and one line of latin-1, got {name!r}: {value!r:.80}")

    def encode(self) -> bytes:
        """Return the bytes of the request in HTTP/1, head and body."""
        parts = urlsplit(self.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = list(self.headers)
        if find_header(self.headers, "Host") is None:
            headers.insert(0, ("Host", parts.netloc))
        if self.body is not None and find_header(self.headers, "Content-Length") is None:
            headers.append(("Content-Length", str(len(self.body))))
        version = "1.1" if self.http_version == BEST else self.http_version
        lines = [f"{self.method} {target} HTTP/{version}", *(f"{name}: {value}" for name, value in headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (self.body or b"")


def speaks_http2() -> bool:
    """Tell whether the package is there that HTTP/2 needs."""
    return importlib.util.find_spec("h2") is not None


def _check_url(url: str) -> None:
    parts = _split(url) if _VISIBLE_ASCII.fullmatch(url) else None
    if parts and "@" in parts.netloc:  # and it is not quoted: this message ends in a log
        raise InvalidSetting("url: expected no user and no password in it (an Authorization header can say them)")
    if not parts or parts.scheme not in PORTS or not parts.hostname:
        raise InvalidSetting(f"url: expected http(s)://host[:port]/path, percent-encoded, got {url!r}")


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else None
    except ValueError:  # brackets without end, a port that is no port
        return None
