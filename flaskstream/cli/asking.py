"""What the commands that ask a server share: headers, a method and a body as curl has them."""

from __future__ import annotations

import math
import os
import ssl
import sys
from typing import Any, Callable, NamedTuple, Tuple, TypeVar

import click

from flaskstream.doctor.exit_codes import EXIT_USAGE

Command = TypeVar("Command", bound=Callable[..., Any])
Headers = Tuple[Tuple[str, str], ...]


class UsageExit(click.Command):
    """A command whose wrong usage has an exit code of its own, for 2 means something else here."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _usage_code():
            return super().make_context(*args, **kwargs)

    def invoke(self, context: click.Context) -> Any:
        with _usage_code():
            return super().invoke(context)


class _usage_code:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, click.UsageError):
            error.exit_code = EXIT_USAGE  # type: ignore[misc]  # click means it to be set


class Seconds(click.FloatRange):
    """A range of seconds: NaN, which is beyond no end of any range, is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"expected a number of seconds, got {value!r}", param, ctx)
        return seconds


def request_options(command: Command) -> Command:
    """Add `-X`, `-H`, `-d` and `-k`."""
    return curl_options(click.option("-k", "--insecure", is_flag=True, help="Take any certificate.")(command))


def curl_options(command: Command) -> Command:
    """Add `-X`, `-H` and `-d`."""
    options = (
        click.option("-X", "--request", "method", metavar="METHOD", help="GET, or POST where there is a body."),
        click.option("-H", "--header", "headers", multiple=True, callback=_headers, help='Such as "Cookie: a=b".'),
        click.option(
            "-d", "--data", metavar="DATA", help="A body, JSON if it looks like it; @FILE reads one, @- stdin."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _headers(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Headers:
    pairs = []
    for value in values:
        name, colon, text = value.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(f'expected "Name: value", got {value!r}')
        pairs.append((name.strip(), text.strip()))
    return tuple(pairs)


class Asked(NamedTuple):
    """A request as the options say it."""

    method: str
    headers: Headers
    body: bytes | None


def request_of(method: str | None, headers: Headers, data: str | None) -> Asked:
    """Return what `-X`, `-H` and `-d` ask for. Raises `click.UsageError`: a file that cannot be read."""
    if data is None:
        return Asked(method or "GET", headers, None)
    body = _file(data[1:]) if data.startswith("@") else os.fsencode(data)  # the bytes that were typed
    if not any(name.lower() == "content-type" for name, _ in headers):
        kind = "application/json" if body.lstrip()[:1] in (b"{", b"[") else "application/x-www-form-urlencoded"
        headers = (*headers, ("Content-Type", kind))
    return Asked(method or "POST", headers, body)


def _file(path: str) -> bytes:
    try:
        if path == "-":  # as curl has it
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise click.UsageError(f"--data: expected a file that can be read, got {error}") from error


def tls_context(insecure: bool) -> ssl.SSLContext | None:
    """Return the context to ask with; `None`: the usual one, which verifies."""
    if not insecure:
        return None
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
