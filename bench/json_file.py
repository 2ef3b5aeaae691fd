"""The option `--json FILE` of the commands here: what cannot be written is told before anything is measured."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Callable

import click


class _File(click.ParamType):
    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> pathlib.Path:
        path = pathlib.Path(value)
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            self.fail(f"expected a file that can be written, got {value!r}", param, ctx)
        return path


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `json_file`: a path, or `None`."""
    return click.option("--json", "json_file", type=_File(), help="Write the figures there.")(command)


def write_json(path: pathlib.Path | None, result: Any) -> None:
    """Write a result, if it is wanted."""
    if path is not None:
        path.write_text(json.dumps(result, indent=1) + "\n")
