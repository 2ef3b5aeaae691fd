"""What an `Upstream` can be told: each value is looked at when it is made, and no secret is quoted."""

from __future__ import annotations

import re
from typing import Mapping
from urllib.parse import SplitResult, urlsplit

import requests

from flaskstream.errors import InvalidSetting
from flaskstream.settings import MAX_SECONDS

_MOST_RETRIES = 10
"""Official clients ask twice again themselves; what has failed ten times is down."""

_VISIBLE_ASCII = re.compile("[!-~]+")
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.1
_FIELD_VALUE = re.compile(r"([!-~\x80-\xff]([\t -~\x80-\xff]*[!-~\x80-\xff])?)?")  # RFC 9110 5.5


def checked_url(base_url: str) -> SplitResult:
    """Return the parts of a URL that can be asked, and holds no password."""
    parts = _parts(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.fragment:
        raise InvalidSetting(f"base_url: expected http(s)://host[:port][/path], got {_shown(base_url)}")
    return parts


def _shown(base_url: object) -> str:
    if not isinstance(base_url, str):
        return type(base_url).__name__
    return "one with a password" if "@" in base_url else repr(base_url.partition("?")[0])


def _parts(base_url: str) -> SplitResult:
    nothing = urlsplit("")
    if not isinstance(base_url, str) or " " in base_url or not base_url.isprintable():
        return nothing
    try:
        requests.Request("POST", base_url).prepare()
        parts = urlsplit(base_url)
        return nothing if parts.port == 0 else parts
    except (requests.RequestException, ValueError):
        return nothing


def checked_key(api_key: str | None) -> str | None:
    """Return a key that a header can carry; `None` for an empty one."""
    if api_key is not None and not isinstance(api_key, str):
        raise InvalidSetting(f"api_key: expected a str, or None, got {type(api_key).__name__}")
    if api_key and not _VISIBLE_ASCII.fullmatch(api_key):
        raise InvalidSetting("api_key: expected visible ASCII, got a space, a line end or another character in it")
    return api_key or None


def checked_model(model: str | None) -> str | None:
    """Return the name of a model."""
    if model is not None and not (isinstance(model, str) and model):
        raise InvalidSetting(f"model: expected a name, or None, got {model!r:.80}")
    return model


def checked_headers(headers: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return headers as a request can carry them."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise InvalidSetting(f"headers: expected names and their values, such as a dict, got {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not _FIELD_NAME.fullmatch(name):
            raise InvalidSetting("headers: expected names of letters, digits and -, got one with something else in it")
        if not isinstance(value, str):
            raise InvalidSetting(f"headers: {name}: expected a str, got {type(value).__name__}")
        if not _FIELD_VALUE.fullmatch(value):
            raise InvalidSetting(
                f"headers: {name}: expected Latin-1, got a line end, a space around it, or another character in it"
            )
    return headers


def checked_seconds(name: str, seconds: float) -> float:
    """Return a time that is meant."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds <= MAX_SECONDS:
        raise InvalidSetting(f"{name}: expected seconds from 0 to {MAX_SECONDS:g}, got {seconds!r:.80}")
    return seconds


def checked_count(name: str, count: int) -> int:
    """Return a number of retries."""
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST_RETRIES:
        raise InvalidSetting(f"{name}: expected a number from 0 to {_MOST_RETRIES}, got {count!r:.80}")
    return count
