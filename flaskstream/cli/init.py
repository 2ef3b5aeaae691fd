"""`flaskstream init`."""

from __future__ import annotations

import shlex
import sys

import click

from flaskstream.cli.asking import UsageExit
from flaskstream.cli.console import EXIT_NOT_MEASURED, fail, say
from flaskstream.errors import InvalidSetting

EXIT_TAKEN = 1
"""There is a file of that name, and it is left alone."""


@click.command("init", cls=UsageExit)
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    show_default=True,
    help="The folder in which the app is started.",
)
@click.option("--force", is_flag=True, help="Write them even where they are; what was there is kept as NAME.old.")
def init(target: str, directory: str, force: bool) -> None:
    """Write wsgi.py and gunicorn.conf.py beside an app, so that its streams stream.

    MODULE:APP is the app as gunicorn takes it, such as legacy:app or legacy:create_app(). The app itself is neither
    changed nor imported. Is it wsgi:app, only the settings are written.

    Exit codes: 0 they are there; 1 others of these names are, and nothing was written; 3 they cannot be written;
    64 usage.
    """
    from flaskstream.beside import plan, taken, write

    try:
        planned = plan(target, directory)
    except InvalidSetting as error:
        raise click.UsageError(str(error)) from error
    try:
        others = [] if force else taken(planned, directory)
        if others:
            fail(_why_not(others), EXIT_TAKEN)
        done = write(planned, directory)
    except OSError as error:
        fail(f"expected a folder that can be written to, got {error}", EXIT_NOT_MEASURED)
    say("\n".join([*done, *_next(planned.served, directory)]))
    sys.exit(0)


def _why_not(others: list[str]) -> str:
    told = f"expected no {' and no '.join(others)} there, got one; nothing was written. --force keeps it as NAME.old"
    if "gunicorn.conf.py" in others:
        told += (
            ".\nOr begin your gunicorn.conf.py with this line, and what stands below it wins:"
            "\n  from flaskstream.gunicorn_conf import *"
        )
    return told


def _next(served: str, directory: str) -> list[str]:
    change = "" if directory == "." else f"cd {shlex.quote(directory)} && "
    return [
        "",
        "See whether a view streams, by its path, and start it:",
        f"  {change}flaskstream check {served} /PATH",
        f"  {change}gunicorn -c gunicorn.conf.py {served}",
    ]
