"""The `flaskstream` command: parses, calls, prints, and decides on the exit code; it does nothing else.

One file for each command. What a command needs is imported when it runs, so that `flask` (which loads this for every
command of every app) stays quick.
"""

from __future__ import annotations

import click

from flaskstream import __version__
from flaskstream.cli.check import check
from flaskstream.cli.compare import compare
from flaskstream.cli.doctor import doctor
from flaskstream.cli.model import model
from flaskstream.cli.proxy_config import proxy_config
from flaskstream.cli.tail import tail


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flaskstream")
def main() -> None:
    """Stream model tokens from Flask to the browser one by one, and see which hop or mistake holds them back."""


for command in (check, compare, doctor, model, proxy_config, tail):
    main.add_command(command)
