"""The `flaskstream` command: parses, calls, prints, and decides on the exit code; it does nothing else.

What a command needs is imported by the command, so that `flask` (which loads this file for every command of every app)
stays quick.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from typing import Any, NoReturn

import click

from flaskstream import __version__
from flaskstream.errors import FlaskStreamError

EXIT_NOT_SHOWN = 1
"""`compare`: fixed does not stream, or broken does."""
EXIT_NOT_MEASURED = 3
"""A server did not start, so there is nothing to tell."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flaskstream")
def main() -> None:
    """Stream model tokens from Flask to the browser one by one, and see which hop holds them."""


@main.command()
@click.option("--clients", default=4, show_default=True, help="How many read at once.")
@click.option("--tokens", default=24, show_default=True, help="How many tokens the model says to each.")
@click.option("--interval-ms", default=50, show_default=True, help="Milliseconds between two tokens.")
@click.option("--faults", metavar="NAMES", help='Only these mistakes alone, separated by commas; "none" for none.')
@click.option("--upstream", metavar="URL", help="A real OpenAI-compatible API in place of the embedded model.")
@click.option("--api-key", envvar="FLASKSTREAM_API_KEY", help="For that API; better as FLASKSTREAM_API_KEY.")
@click.option("--model", envvar="FLASKSTREAM_MODEL", help="The model to ask for at that API.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--html", "html_file", type=click.Path(dir_okay=False, writable=True), help="Write a page as well.")
def compare(faults: str | None, as_json: bool, html_file: str | None, **plan: Any) -> None:
    """Start the right way and the wrong way side by side, and show the difference.

    Starts a model server, gunicorn in the fixed mode and gunicorn in the broken mode on free ports, reads from both
    with several clients at once, then switches each mistake on alone. Ends all that it started.

    Exit codes: 0 fixed streams and broken does not; 1 otherwise; 2 usage; 3 a server did not start.
    """
    from flaskstream.lab import report, report_html
    from flaskstream.lab.compare import Plan
    from flaskstream.lab.compare import compare as measure
    from flaskstream.lab.processes import ProcessFailed

    if faults is not None:
        plan["faults"] = tuple(name.strip() for name in faults.split(",") if name.strip())
    signal.signal(signal.SIGTERM, _interrupt)  # so that what was started is ended on SIGTERM as on Ctrl-C
    progress = _Progress()
    try:
        comparison = measure(Plan(**plan), progress)
    except FlaskStreamError as error:
        raise click.UsageError(str(error)) from error
    except ProcessFailed as error:
        progress.clear()
        _fail(str(error), EXIT_NOT_MEASURED)
    progress.clear()
    if html_file:
        with open(html_file, "w", encoding="utf-8") as file:
            file.write(report_html.html_report(comparison))
    if as_json:
        click.echo(json.dumps(report.json_report(comparison), indent=2))
    else:
        click.echo(report.text_report(comparison, color=_wants_color(), width=_width(), unicode=_can_unicode()))
    if html_file:
        click.echo(f"The page: {html_file}", err=True)
    sys.exit(0 if comparison.verdict.ok else EXIT_NOT_SHOWN)


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8801, show_default=True, help="0: a free one.")
@click.option("--script", metavar="SCRIPT", help='What it does by default, such as "framing=close&tokens=100".')
@click.option("--until-stdin-closes", is_flag=True, help="End with the process that started it.")
def model(host: str, port: int, script: str | None, until_stdin_closes: bool) -> None:
    """Run the embedded model: an OpenAI-compatible server that misbehaves on demand.

    A request chooses its misbehaviour by the name of the model, so it passes through every relay and SDK:
    "tick?tokens=100&interval_ms=20&framing=close&close_at=2000".
    """
    from flaskstream.lab.model import serve
    from flaskstream.lab.script import Script

    try:
        default = Script.parse(f"tick?{script}" if script else "tick")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--script") from error
    try:
        serve(host, port, default, until_stdin_closes=until_stdin_closes)
    except OSError as error:
        _fail(f"cannot listen on {host}:{port}: {error}", EXIT_NOT_MEASURED)


class _Progress:
    """A line on stderr that says what is being done: rewritten on a terminal, one for each step elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._is_terminal:
            click.echo(f"\r\x1b[K{text[: _width() - 1]}", err=True, nl=False)
        else:
            click.echo(text, err=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._is_terminal:
            click.echo("\r\x1b[K", err=True, nl=False)


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def _wants_color() -> bool:
    import os

    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")  # https://no-color.org


def _width() -> int:
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def _can_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
