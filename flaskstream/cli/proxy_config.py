"""`flaskstream proxy-config`."""

from __future__ import annotations

import click

from flaskstream.cli.asking import UsageExit
from flaskstream.cli.console import say
from flaskstream.errors import InvalidSetting
from flaskstream.proxies import PROXIES, READ_TIMEOUT, ROUTE, UPSTREAM


@click.command("proxy-config", cls=UsageExit)
@click.argument("name", type=click.Choice(list(PROXIES)), required=False)
@click.option(
    "--route", default=ROUTE, show_default=True, help="A path; with a slash at its end, all that is below it."
)
@click.option("--upstream", metavar="HOST:PORT", default=UPSTREAM, show_default=True, help="Where the app listens.")
@click.option(
    "--read-timeout",
    type=click.IntRange(1),
    default=READ_TIMEOUT,
    show_default=True,
    help="Seconds that the app may say nothing; longer than its heartbeats are apart.",
)
def proxy_config(name: str | None, route: str, upstream: str, read_timeout: int) -> None:
    """Print the configuration of a proxy for one route that streams, with the reason for each line.

    Without a name it lists the proxies. All other routes stay as they are: buffered, and compressed.

    Exit codes: 0; 3 no place to write to; 64 usage.
    """
    if name is None:
        say("\n".join(f"{proxy.name:<10}{proxy.what}. {proxy.place}" for proxy in PROXIES.values()))
        return
    try:
        snippet = PROXIES[name].snippet(route, upstream, read_timeout)
    except InvalidSetting as error:
        raise click.UsageError(str(error)) from error
    say(snippet, nl=False)
