"""The model API behind us: open a request with `requests`, hand on what arrives, close."""

from __future__ import annotations

import re
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Mapping, Pattern
from urllib.parse import urlunsplit

import requests

from flaskstream.errors import MAX_ERROR_BODY_BYTES, UpstreamStatus
from flaskstream.upstream.answer import Answer
from flaskstream.upstream.checks import (
    checked_count,
    checked_headers,
    checked_key,
    checked_model,
    checked_seconds,
    checked_url,
)
from flaskstream.upstream.errors import translated_errors
from flaskstream.upstream.pool import FreshAdapter

ERROR_BODY_SECONDS = 2.0
"""How long the body of an error status is awaited: its client has waited already, and the status says enough."""

BEARER = ("Authorization", "Bearer {}")
"""How most APIs want their key."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_SHORTEST_SECRET = 8
"""Characters; a shorter key is a stand-in, such as the "x" of a local model, and occurs in any text."""


class Upstream:
    """An API to relay from. One for an app; safe for its threads and greenlets, whose connections it shares.

    No cookie is kept: it would be one user's.

    Args:
        base_url: such as `https://api.openai.com/v1`. No request ever goes to another host: redirects are refused.
            A query string is kept behind every path.
        api_key: sent as a bearer token, or as the dialect wants it; never part of an error, a log line or an answer.
        model: the `model` for requests that name none, such as those of `/chat`; `None`: they go out without one.
        connect_timeout: seconds to wait for a connection.
        idle_timeout: seconds without a byte after which the upstream is given up, before its answer and within it;
            0: never.
        content_timeout: seconds for which it may send comments and pings only, and nothing of an answer; 0: for ever.
        retries: how often a request is asked again whose answer failed before anything of it came, such as with a 429
            or a broken connection; see `flaskstream.upstream.retries`. Nothing is asked again after that.
        headers: sent with every request.

    Attributes:
        secret: what `hide_key` hides; b"": nothing.

    Raises:
        InvalidSetting: a value that does not work.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        model: str | None = None,
        connect_timeout: float = 10.0,
        idle_timeout: float = 60.0,
        content_timeout: float = 0.0,
        retries: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._base_url = checked_url(base_url)
        self._api_key = checked_key(api_key)
        self.secret = (self._api_key or "").encode() if len(self._api_key or "") >= _SHORTEST_SECRET else b""
        self._escaped_secret = _as_json_may_write_it(self.secret) if self.secret else None
        self.model = checked_model(model)
        connect, idle = (
            checked_seconds("connect_timeout", connect_timeout),
            checked_seconds("idle_timeout", idle_timeout),
        )
        self._timeout = (connect or None, idle or None)
        self.content_timeout = checked_seconds("content_timeout", content_timeout)
        self.retries = checked_count("retries", retries)
        self._session = requests.Session()
        adapter = FreshAdapter()
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        # identity: an upstream that compresses seldom flushes. Whoever compresses all the same is decoded.
        self._session.headers.update({"Accept": "text/event-stream, application/json", "Accept-Encoding": "identity"})
        self._session.headers.update(checked_headers(headers))
        # The environment's proxy is asked for other hosts only: it cannot reach this one.
        host = self._base_url.hostname
        self._proxies = {"no_proxy": host} if host in _LOOPBACK else None

    def open(
        self,
        path: str,
        payload: Any,
        *,
        stream: bool = True,
        headers: Mapping[str, str] | None = None,
        key_header: tuple[str, str] = BEARER,
    ) -> Answer:
        """Send a request and return the answer once its head is here. Close it: it is a context manager.

        Args:
            path: below the base URL; "": that itself.
            payload: sent as JSON.
            stream: `False` waits for the whole body, as `requests` does by itself.
            headers: sent too; those that this object was given win.
            key_header: the header that carries the API key, and its value with `{}` for the key.

        Raises:
            UpstreamRefused, UpstreamTimeout: there is no answer.
            UpstreamStatus: the answer is no 2xx.
        """
        url = self._url(path)
        with translated_errors(before_head=True, asked=_without_query(url)):
            response = self._session.post(
                url,
                json=payload,
                headers={name: value for name, value in (headers or {}).items() if name not in self._session.headers},
                auth=_KeyAuth(self._api_key, *key_header),
                stream=stream,
                timeout=self._timeout,
                proxies=self._proxies,
                allow_redirects=False,
            )
        answer = Answer(response, is_read=not stream, hide=self.hide_key_in_text)
        if not 200 <= response.status_code < 300:
            with answer:
                raise self._status_error(answer, _without_query(url))
        return answer

    def _url(self, path: str) -> str:
        base = self._base_url
        if not path:
            return urlunsplit(base)
        return urlunsplit(base._replace(path=f"{base.path.rstrip('/')}/{path.lstrip('/')}"))

    def _status_error(self, answer: Answer, asked: str) -> UpstreamStatus:
        error = self._status_error_of(answer)
        error.asked = asked
        return error

    def _status_error_of(self, answer: Answer) -> UpstreamStatus:
        if answer.status < 400:  # a redirect is no answer to this request, and its target is not ours to tell
            return UpstreamStatus(502)
        room = MAX_ERROR_BODY_BYTES + len(self._api_key or "")  # a key at the limit is read whole, and so is found
        body = self.hide_key(answer.read_some(room, ERROR_BODY_SECONDS))
        return UpstreamStatus(answer.status, body, answer.content_type or "text/plain", answer.forwarded_headers)

    def hide_key(self, data: bytes) -> bytes:
        """Return the bytes with the API key made unreadable, in its length, should an upstream repeat it."""
        secret = self.secret
        if secret and secret in data:
            data = data.replace(secret, b"*" * len(secret))
        if self._escaped_secret is not None and b"\\" in data:
            data = self._escaped_secret.sub(lambda found: b"*" * len(found.group()), data)
        return data

    def hide_key_in_text(self, text: str) -> str:
        """Return the text with the API key made unreadable."""
        key = self._api_key or ""
        return text.replace(key, "*" * len(key)) if len(key) >= _SHORTEST_SECRET and key in text else text

    def close(self) -> None:
        """Close the idle connections."""
        self._session.close()


def _as_json_may_write_it(secret: bytes) -> Pattern[bytes]:
    """Return what finds these ASCII letters in JSON, whichever of them are escaped there."""
    letters = ((re.escape(bytes([code])), code) for code in secret)
    return re.compile(b"".join(rb"(?:\\?%b|(?i:\\u%04x))" % letter for letter in letters))


def _without_query(url: str) -> str:
    """Return the URL as it may be logged: a query may hold a key."""
    return url.partition("?")[0]


class _KeyAuth(requests.auth.AuthBase):
    """Also keeps `requests` from looking for other credentials in a .netrc file."""

    def __init__(self, api_key: str | None, name: str, value: str) -> None:
        self._api_key = api_key
        self._name = name
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._api_key:
            request.headers[self._name] = self._value.format(self._api_key)
        return request
