"""What `requests`, `urllib3` and `http.client` raise, in this kit's words. The one place that knows theirs."""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import socket
import ssl
import zlib
from typing import Any, Iterator

import requests
import urllib3

from flaskstream.errors import (
    FlaskStreamError,
    IdleTimeout,
    TooManyStreams,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamTruncated,
)

# The built-in TimeoutError is the kernel's (ETIMEDOUT); before Python 3.10 it is another than the socket's.
_TIMEOUTS = (requests.Timeout, urllib3.exceptions.TimeoutError, socket.timeout, TimeoutError)
_TRUNCATIONS = (
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.ProtocolError,
    http.client.IncompleteRead,
    ConnectionError,
)
_OTHERS = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    zlib.error,
    OSError,
)


_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


@contextlib.contextmanager
def translated_errors(before_head: bool, asked: str = "") -> Iterator[None]:
    """Raise `UpstreamError` for whatever the HTTP libraries raise in this block; for what is our own fault, our own.

    Their messages hold addresses and paths, which stay in the log as the `__cause__`.

    Args:
        before_head: the answer has not begun.
        asked: the URL, for the log.
    """
    try:
        yield
    except FlaskStreamError:
        raise
    except Exception as error:
        translated = translate(error, before_head)
        if translated is None:
            raise
        if isinstance(translated, UpstreamError):
            translated.asked = asked
        raise translated from error


def translate(error: Exception, before_head: bool) -> FlaskStreamError | None:
    """Return what an error means; `None` if it is not the upstream's, but a mistake in a program."""
    causes = list(_causes(error))
    is_network = before_head and isinstance(error, _OTHERS)
    if any(_is_for_want_of_a_descriptor(cause) for cause in causes) or (is_network and _has_no_descriptor()):
        return TooManyStreams("expected a descriptor for a connection to the upstream, got none: raise LimitNOFILE")
    name = type(causes[-1]).__name__
    if any(_is_timeout(cause) for cause in causes):
        timeout = UpstreamTimeout if before_head else IdleTimeout
        return timeout(f"expected a byte from the upstream in time, got none ({name})")
    if before_head and isinstance(error, requests.ConnectionError):
        return UpstreamRefused(f"expected an answer from the upstream, got none ({name})")
    if any(isinstance(cause, _TRUNCATIONS) for cause in causes):
        return UpstreamTruncated(f"expected the rest of the upstream's body, got its end ({name})")
    if isinstance(error, _OTHERS):
        return UpstreamError(f"expected an answer that can be read from the upstream, got {name}")
    return None


def _is_for_want_of_a_descriptor(cause: BaseException) -> bool:
    # Older urllib3 tells what the kernel said in its own text alone.
    return any(isinstance(one, OSError) and one.errno in _NO_DESCRIPTOR for one in (cause, cause.__context__))


def _has_no_descriptor() -> bool:
    # Who looks up a name without one is told anything but that.
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in _NO_DESCRIPTOR
    return False


def _is_timeout(cause: BaseException) -> bool:
    # urllib3 derives "no connection" from "no connection in time".
    if isinstance(cause, urllib3.exceptions.NewConnectionError):
        return False
    # gevent tells a timeout under TLS as an SSLError with this text.
    return isinstance(cause, _TIMEOUTS) or (isinstance(cause, ssl.SSLError) and "timed out" in str(cause))


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
        waiting += [*cause.args, getattr(cause, "reason", None), cause.__cause__]
