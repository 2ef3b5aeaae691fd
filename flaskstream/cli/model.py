"""`flaskstream model`."""

from __future__ import annotations

import click

from flaskstream.cli.console import EXIT_NOT_MEASURED, fail


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8801, show_default=True, help="0: a free one.")
@click.option("--script", metavar="SCRIPT", help='What it does by default, such as "framing=close&tokens=100".')
@click.option("--until-stdin-closes", is_flag=True, help="End with the process that started it.")
@click.option("--certfile", metavar="FILE", help="Listen with TLS: the certificate in PEM, with its key or without.")
@click.option("--keyfile", metavar="FILE", help="The key of the certificate, where it has a file of its own.")
def model(
    host: str, port: int, script: str | None, until_stdin_closes: bool, certfile: str | None, keyfile: str | None
) -> None:
    """Run the embedded model: a server that answers as OpenAI and Anthropic do, and misbehaves on demand.

    A request chooses its misbehaviour by the name of the model, so it passes through every relay and SDK:
    "tick?tokens=100&interval_ms=20&framing=close&close_at=2000".
    """
    from flaskstream.lab.model.command import serve, tls_of
    from flaskstream.lab.model.script import Script

    try:
        default = Script.parse(f"tick?{script}" if script else "tick")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--script") from error
    try:
        tls = tls_of(certfile, keyfile)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--certfile") from error
    try:
        serve(host, port, default, until_stdin_closes=until_stdin_closes, tls=tls)
    except OSError as error:
        fail(f"cannot listen on {host}:{port}: {error}", EXIT_NOT_MEASURED)
