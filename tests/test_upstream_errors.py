"""Whatever the HTTP libraries raise becomes an error of ours that says whose fault it is."""

from __future__ import annotations

import http.client
import socket
import ssl
import zlib

import pytest
import requests
import urllib3

from flaskstream.errors import (
    IdleTimeout,
    InvalidEvent,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamTruncated,
)
from flaskstream.upstream.errors import translate, translated_errors

errors = urllib3.exceptions
POOL = urllib3.HTTPConnectionPool("127.0.0.1")


def wrapped(reason: Exception) -> requests.ConnectionError:
    """As requests wraps what urllib3 has given up on."""
    return requests.ConnectionError(errors.MaxRetryError(POOL, "/", reason))


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


BEFORE_HEAD = [
    (wrapped(errors.NewConnectionError(POOL, "refused")), UpstreamRefused),  # to urllib3 it is a timeout too
    (wrapped(caused(errors.NewConnectionError(POOL, "no route"), OSError(113, "no route"))), UpstreamRefused),
    (wrapped(caused(errors.NewConnectionError(POOL, "late"), TimeoutError(110, "late"))), UpstreamTimeout),
    (requests.ConnectTimeout(errors.MaxRetryError(POOL, "/", errors.ConnectTimeoutError())), UpstreamTimeout),
    (requests.ReadTimeout(errors.ReadTimeoutError(POOL, "/", "late")), UpstreamTimeout),
    (requests.exceptions.SSLError(errors.SSLError(ssl.SSLError("certificate verify failed"))), UpstreamRefused),
    (requests.exceptions.SSLError(errors.SSLError(ssl.SSLError("The read operation timed out"))), UpstreamTimeout),
    (requests.exceptions.ProxyError("no proxy"), UpstreamRefused),
    (requests.ConnectionError(errors.ProtocolError("aborted", http.client.RemoteDisconnected())), UpstreamRefused),
    (requests.ConnectionError(errors.ProtocolError("aborted", ConnectionResetError())), UpstreamRefused),
    (requests.exceptions.ChunkedEncodingError(errors.ProtocolError("cut")), UpstreamTruncated),
    (requests.exceptions.InvalidURL("x"), UpstreamError),
]
IN_THE_BODY = [
    (errors.ReadTimeoutError(POOL, "/", "late"), IdleTimeout),
    (requests.ConnectionError(errors.ReadTimeoutError(POOL, "/", "late")), IdleTimeout),
    (socket.timeout("timed out"), IdleTimeout),
    (TimeoutError(110, "Connection timed out"), IdleTimeout),
    (ssl.SSLError("The read operation timed out"), IdleTimeout),
    (errors.SSLError(ssl.SSLError("The read operation timed out")), IdleTimeout),
    (errors.ProtocolError("broken", http.client.IncompleteRead(b"")), UpstreamTruncated),
    (errors.IncompleteRead(3, 4), UpstreamTruncated),
    (http.client.IncompleteRead(b""), UpstreamTruncated),
    (requests.exceptions.ChunkedEncodingError("cut"), UpstreamTruncated),
    (ConnectionResetError(104, "reset"), UpstreamTruncated),
    (BrokenPipeError(), UpstreamTruncated),
    (errors.DecodeError("gzip"), UpstreamError),
    (zlib.error("bad"), UpstreamError),
    (ssl.SSLError("bad record mac"), UpstreamError),
    (http.client.LineTooLong("header line"), UpstreamError),
    (OSError("disk"), UpstreamError),
]


@pytest.mark.parametrize(("error", "meaning"), BEFORE_HEAD, ids=lambda value: repr(value)[:60])
def test_an_error_before_the_head(error: Exception, meaning: type[Exception]) -> None:
    assert type(translate(error, before_head=True)) is meaning


@pytest.mark.parametrize(("error", "meaning"), IN_THE_BODY, ids=lambda value: repr(value)[:60])
def test_an_error_in_the_body(error: Exception, meaning: type[Exception]) -> None:
    assert type(translate(error, before_head=False)) is meaning


@pytest.mark.parametrize("error", [ValueError("x"), AttributeError("x"), RecursionError("x")], ids=repr)
@pytest.mark.parametrize("before_head", [True, False])
def test_a_mistake_in_a_program_is_not_the_upstream_s_fault(error: Exception, before_head: bool) -> None:
    assert translate(error, before_head) is None
    with pytest.raises(type(error)), translated_errors(before_head):
        raise error


def test_an_error_of_ours_stays_as_it_is() -> None:
    error = InvalidEvent("x")
    with pytest.raises(InvalidEvent) as caught, translated_errors(before_head=True):
        raise error
    assert caught.value is error


def test_what_was_being_handled_meanwhile_does_not_matter() -> None:
    with pytest.raises(UpstreamTruncated), translated_errors(before_head=False):
        try:
            raise socket.timeout("of something else")
        except OSError:
            raise ConnectionResetError() from None


def test_the_message_names_no_address_and_the_cause_is_kept() -> None:
    error = wrapped(errors.NewConnectionError(POOL, "http://10.0.0.1/v1?api-key=secret"))
    with pytest.raises(UpstreamRefused) as caught, translated_errors(before_head=True):
        raise error
    assert "10.0.0.1" not in str(caught.value)
    assert caught.value.__cause__ is error


def test_causes_that_go_in_a_circle_end() -> None:
    one, other = ValueError("x"), ConnectionResetError("x")
    one.__cause__, other.__cause__ = other, one
    other.args = (one,)
    assert type(translate(other, before_head=False)) is UpstreamTruncated
