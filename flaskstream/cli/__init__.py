"""The `flaskstream` command: parses, calls, prints, and decides on the exit code; it does nothing else.

One file for each command. What a command needs is imported when it runs, so that `--help` is quick.
"""

from __future__ import annotations

from typing import Any

import click

from flaskstream import __version__
from flaskstream.cli.check import check
from flaskstream.cli.compare import compare
from flaskstream.cli.console import EXIT_INTERRUPTED
from flaskstream.cli.doctor import doctor
from flaskstream.cli.init import init
from flaskstream.cli.model import model
from flaskstream.cli.proxy_config import proxy_config
from flaskstream.cli.tail import tail


class Commands(click.Group):
    """The commands; Ctrl-C while one still imports what it needs, or where it is not looked for, ends it quietly."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # of which click would make a 1, and a 1 has a meaning here
            ctx.exit(EXIT_INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flaskstream")
def main() -> None:
    """Stream model tokens from Flask to the browser one by one, and see which hop or mistake holds them back."""


for command in (check, compare, doctor, init, model, proxy_config, tail):
    main.add_command(command)
