"""The model API behind us: open a request with `requests`, read what is there, translate errors, close.

The point of this file is `Answer.chunks()`. Every usual way of reading with `requests` (`iter_content`, `iter_lines`,
`raw.stream`) waits for a full block, or for the end, when the upstream does not use the chunked coding. Reading with
`read1` returns what one `recv` gave, in all three framings, decompressed.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import zlib
from typing import Any, Callable, Iterator, Mapping

import requests
import urllib3
from requests.adapters import HTTPAdapter

from flaskstream.errors import (
    MAX_ERROR_BODY_BYTES,
    FlaskStreamError,
    IdleTimeout,
    InvalidSetting,
    UpstreamError,
    UpstreamRefused,
    UpstreamStatus,
    UpstreamTimeout,
    UpstreamTruncated,
)

READ_BYTES = 64 * 1024
"""At most this much is taken at once: what one `recv` of a fast upstream gives; no read waits to fill it."""

_MAX_IDLE_CONNECTIONS = 100

# What a stream of events calls itself. Servers that name no type, or none in particular, are given the benefit.
_STREAM_TYPES = frozenset({"text/event-stream", "application/octet-stream", "binary/octet-stream", ""})

_FORWARDED_WITH_ERRORS = ("Retry-After", "X-Request-Id")


class Upstream:
    """An API to relay from. One for an app; safe for its threads and greenlets, whose connections it shares.

    Args:
        base_url: such as `https://api.openai.com/v1`. No request ever goes to another host: redirects are refused.
        api_key: sent as a bearer token; never part of an error, a log line or an answer.
        model: the `model` for requests that name none.
        connect_timeout: seconds to wait for a connection.
        idle_timeout: seconds without a byte after which the upstream is given up, before its answer and within it.
        headers: sent with every request.

    Raises:
        InvalidSetting: the base URL is no http or https URL.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        model: str = "tick",
        connect_timeout: float = 10.0,
        idle_timeout: float = 60.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise InvalidSetting(f"base_url: expected a URL that begins with http:// or https://, got {base_url!r}")
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key
        self.model = model
        self._timeout = (connect_timeout, idle_timeout or None)
        self._session = requests.Session()
        adapter = HTTPAdapter(pool_maxsize=_MAX_IDLE_CONNECTIONS)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        # identity: an upstream that compresses seldom flushes. Whoever compresses all the same is decoded.
        self._session.headers.update({"Accept": "text/event-stream, application/json", "Accept-Encoding": "identity"})
        self._session.headers.update(headers or {})
        self._session.auth = _BearerAuth(api_key)

    def open(self, path: str, payload: Any, *, stream: bool = True) -> Answer:
        """Send a request and return the answer once its head is here. Close it: it is a context manager.

        Args:
            path: below the base URL.
            payload: sent as JSON.
            stream: `False` waits for the whole body, for an answer that does not stream.

        Raises:
            UpstreamRefused, UpstreamTimeout: there is no answer.
            UpstreamStatus: the answer is no 2xx.
        """
        with _translated_errors(UpstreamTimeout):
            response = self._session.post(
                f"{self._base_url}/{path.lstrip('/')}",
                json=payload,
                stream=stream,
                timeout=self._timeout,
                allow_redirects=False,
            )
        answer = Answer(response, is_read=not stream)
        if not 200 <= response.status_code < 300:
            with answer:
                raise self._status_error(answer)
        return answer

    def _status_error(self, answer: Answer) -> UpstreamStatus:
        body = b""
        with contextlib.suppress(FlaskStreamError):  # what there is of the body will do
            for chunk in answer.chunks():
                body += chunk
                if len(body) >= MAX_ERROR_BODY_BYTES:
                    break
        if self._api_key:
            body = body.replace(self._api_key.encode(), b"[api key]")
        headers = {name: answer.headers[name] for name in _FORWARDED_WITH_ERRORS if name in answer.headers}
        # A redirect is no answer to this request, and its target is not ours to tell.
        status, body = (answer.status, body) if answer.status >= 400 else (502, b"")
        return UpstreamStatus(status, body, answer.headers.get("Content-Type", "text/plain"), headers)

    def close(self) -> None:
        """Close the idle connections."""
        self._session.close()


class _BearerAuth(requests.auth.AuthBase):
    """Also keeps `requests` from looking for other credentials in a .netrc file."""

    def __init__(self, api_key: str | None) -> None:
        self._api_key = api_key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._api_key:
            request.headers["Authorization"] = f"Bearer {self._api_key}"
        return request


class Answer:
    """An upstream's answer whose body is still coming.

    Attributes:
        response: the response of `requests`.
        status: the HTTP status.
        headers: by any case of their names.
    """

    def __init__(self, response: requests.Response, is_read: bool = False) -> None:
        self.response = response
        self._is_read = is_read
        self.status = response.status_code
        self.headers = response.headers

    def expect_stream(self) -> None:
        """Raise `UpstreamError` if this is no stream of events, such as a login page with the status 200."""
        content_type = self.headers.get("Content-Type", "").split(";")[0].strip().lower()
        if content_type not in _STREAM_TYPES:
            raise UpstreamError(f"expected text/event-stream from the upstream, got {content_type}")

    def chunks(self) -> Iterator[bytes]:
        """Yield the body, decompressed, in the pieces in which it arrives; none is empty.

        Raises:
            IdleTimeout: nothing came for as long as the upstream may be silent.
            UpstreamTruncated: it ended before its framing or its compression did.
        """
        if self._is_read:
            yield from filter(None, [self.response.content])
            return
        read = _reader(self.response.raw)
        with _translated_errors(IdleTimeout):
            chunk = read()
            while chunk:
                yield chunk
                chunk = read()

    def close(self) -> None:
        """Close the connection, unless the body was read to its end: then it is kept for the next request."""
        self.response.close()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _reader(raw: Any) -> Callable[[], bytes]:
    """Return a function that waits for one `recv` and returns what it gave, decoded; b"" at the end."""
    if hasattr(raw, "read1"):  # urllib3 2.2 on
        return lambda: raw.read1(READ_BYTES, decode_content=True) or b""
    return _LegacyReader(raw).read


class _LegacyReader:
    """The same for older urllib3, from the `http.client` response that it wraps."""

    def __init__(self, raw: Any) -> None:
        self._response: http.client.HTTPResponse = raw._fp
        self._decoder = _decompressor(raw.headers.get("Content-Encoding", "").strip().lower())

    def read(self) -> bytes:
        while True:
            data = self._response.read1(READ_BYTES)
            if not data:
                return self._end()
            if self._decoder is None:
                return data
            decoded = self._decoder.decompress(data)
            if decoded:
                return bytes(decoded)

    def _end(self) -> bytes:
        missing = self._response.length  # what Content-Length promised and did not come
        if missing:
            raise UpstreamTruncated(f"expected {missing} more bytes from the upstream, got its end")
        if self._decoder is not None and not self._decoder.eof:
            raise UpstreamTruncated("expected the end of the compressed data, got the end of the connection")
        return b""


def _decompressor(coding: str) -> Any:
    if coding in ("gzip", "x-gzip"):
        return zlib.decompressobj(16 + zlib.MAX_WBITS)
    if coding == "deflate":
        return zlib.decompressobj()
    if coding in ("", "identity"):
        return None
    raise UpstreamError(f"expected gzip, deflate or no coding from the upstream, got {coding!r}")


@contextlib.contextmanager
def _translated_errors(on_timeout: type[UpstreamError]) -> Iterator[None]:
    """Turn what `requests`, `urllib3` and `http.client` raise into this kit's errors. The one place that does.

    Their messages hold addresses and paths, which stay in the log as the `__cause__`.
    """
    try:
        yield
    except FlaskStreamError:
        raise
    except Exception as error:
        translated = _translate(error, on_timeout)
        if translated is None:
            raise
        raise translated from error


_TIMEOUTS = (requests.Timeout, urllib3.exceptions.TimeoutError, socket.timeout)
_TRUNCATIONS = (
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.ProtocolError,
    http.client.IncompleteRead,
    ConnectionError,
)


def _translate(error: Exception, on_timeout: type[UpstreamError]) -> UpstreamError | None:
    chain = list(_causes(error))
    if any(isinstance(cause, _TIMEOUTS) for cause in chain):
        return on_timeout(f"no byte from the upstream in time ({type(error).__name__})")
    before_head = on_timeout is UpstreamTimeout
    if before_head and isinstance(error, requests.RequestException):
        return UpstreamRefused(f"no answer from the upstream ({type(chain[-1]).__name__})")
    if any(isinstance(cause, _TRUNCATIONS) for cause in chain):
        return UpstreamTruncated(f"the upstream's body broke off ({type(error).__name__})")
    if isinstance(error, (requests.RequestException, urllib3.exceptions.HTTPError, zlib.error, OSError)):
        return UpstreamError(f"the upstream's body cannot be read ({type(error).__name__})")
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what is behind it: the libraries wrap one another's, as arguments or as causes."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        cause = waiting.pop(0)
        if not isinstance(cause, BaseException) or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]
