"""`flask flaskstream`, in an app that has mounted the blueprint.

It is no entry point, for with the setuptools that Python's own environments bring Flask before 2.1 dies of one whose
distribution needs gevent: every command of `flask` would end with a traceback, once the kit is installed.
"""

from __future__ import annotations

import importlib
from typing import Any

import click


class _Named(click.Group):
    """The commands of `flaskstream.cli`, which is found by its name when one is asked for, as an entry point is."""

    @property
    def _commands(self) -> Any:
        return importlib.import_module("flaskstream.cli").main

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return list(self._commands.get_params(ctx))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._commands.list_commands(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> Any:
        return self._commands.get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        return self._commands.invoke(ctx)


def add_flask_command(state: Any) -> None:
    """Add the command to an app, unless it has one of this name. For `Blueprint.record`."""
    if flask_command.name not in state.app.cli.commands:
        state.app.cli.add_command(flask_command)


flask_command = _Named(
    "flaskstream",
    help="Stream model tokens to the browser one by one, and see which hop or mistake holds them back.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
