"""`flaskstream tail`."""

from __future__ import annotations

import sys

import click

from flaskstream.cli.asking import Seconds, UsageExit, request_of, request_options, tls_context
from flaskstream.cli.console import EXIT_INTERRUPTED, can_unicode, say, terminal_width, wants_color
from flaskstream.errors import InvalidSetting


@click.command(cls=UsageExit)
@click.argument("url")
@request_options
@click.option("--http2", "version", flag_value="2", help="HTTP/2 or nothing; else it is used where it is offered.")
@click.option("--http1.1", "version", flag_value="1.1", help="Not HTTP/2.")
@click.option("--timeout", type=Seconds(0.1, 86_400), default=300.0, show_default=True, help="Longest silence.")
def tail(
    url: str,
    method: str | None,
    headers: tuple[tuple[str, str], ...],
    data: str | None,
    insecure: bool,
    version: str | None,
    timeout: float,
) -> None:
    """Read a stream as it comes: the time, the gap and the event on each line.

    `curl -N` that knows what an event is. Comments, such as heartbeats, are shown too. Ends with a summary, also
    after Ctrl-C.

    Exit codes: 0 the stream was whole; 2 it was cut; 3 none, or no place to write it to; 64 usage; 130 Ctrl-C.
    """
    from flaskstream.doctor.measure import Request
    from flaskstream.doctor.request import BEST
    from flaskstream.doctor.tail import Tail

    asked = request_of(method, headers, data)
    accept = (("Accept", "text/event-stream, */*"), *asked.headers)
    try:
        request = Request(
            url,
            asked.method,
            accept,
            asked.body,
            version or BEST,
            timeout,
            max_bytes=sys.maxsize,
            tls=tls_context(insecure),
        )
    except InvalidSetting as error:
        raise click.UsageError(str(error)) from error
    tailed = Tail(
        request, color=wants_color(), width=terminal_width() if sys.stdout.isatty() else 0, unicode=can_unicode()
    )
    try:
        for line in tailed.lines():
            say(line)
    except KeyboardInterrupt:
        say(tailed.summary())
        sys.exit(EXIT_INTERRUPTED)
    say(tailed.summary())
    sys.exit(tailed.exit_code)
