"""The `flaskstream` command: parses, calls, prints, and decides on the exit code; it does nothing else.

What a command needs is imported by the command, so that `flask` (which loads this file for every command of every app)
stays quick.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any, Iterator, NoReturn

import click

from flaskstream import __version__
from flaskstream.errors import FlaskStreamError

if TYPE_CHECKING:
    from flaskstream.lab.plan import Plan
    from flaskstream.lab.results import Comparison

EXIT_NOT_SHOWN = 1
"""`compare`: fixed does not stream, or broken does."""
EXIT_NOT_MEASURED = 3
"""A server did not start, so there is nothing to tell."""
EXIT_SIGNAL = 128
"""And the number of the signal that ended the command, as a shell would say it: 130 for Ctrl-C."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flaskstream")
def main() -> None:
    """Stream model tokens from Flask to the browser one by one, and see which mistake holds them back."""


def _page(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse, before anything is measured, a page that cannot be written."""
    if value is not None and not os.access(os.path.dirname(value) or ".", os.W_OK):
        raise click.BadParameter(f"expected a file in a folder that can be written to, got {value!r}")
    return value


@main.command()
@click.option("--clients", default=4, show_default=True, help="How many read at once.")
@click.option("--tokens", default=24, show_default=True, help="How many tokens the model says to each.")
@click.option("--interval-ms", default=50, show_default=True, help="Milliseconds between two tokens.")
@click.option("--faults", metavar="NAMES", help='Only these mistakes alone, separated by commas; "none" for none.')
@click.option(
    "--upstream",
    metavar="URL",
    help="A real OpenAI-compatible API in place of the embedded model. Every client asks it once in every run:"
    " some 40 answers to pay for, fewer with --faults and --clients.",
)
@click.option("--api-key", envvar="FLASKSTREAM_API_KEY", help="For that API; better as FLASKSTREAM_API_KEY.")
@click.option("--model", envvar="FLASKSTREAM_MODEL", help="The model to ask for at that API.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--html", type=click.Path(dir_okay=False, writable=True), callback=_page, help="Write a page as well.")
def compare(faults: str | None, as_json: bool, html: str | None, **numbers: Any) -> None:
    """Start the right way and the wrong way side by side, and show the difference.

    Starts a model server, gunicorn in the fixed mode and gunicorn in the broken mode on free ports, reads from both
    with several clients at once, then switches each mistake on alone. Ends all that it started.

    Exit codes: 0 fixed streams and broken does not; 1 otherwise; 2 usage; 3 a server did not start; 130 Ctrl-C.
    """
    from flaskstream.lab import report, report_html
    from flaskstream.lab.plan import Plan

    names = None if faults is None else tuple(name.strip() for name in faults.split(",") if name.strip())
    try:
        plan = Plan(faults=names, **numbers)
    except FlaskStreamError as error:
        raise click.UsageError(str(error)) from error
    comparison = _measured(plan)
    if html:
        with open(html, "w", encoding="utf-8") as file:
            file.write(report_html.html_report(comparison))
    if as_json:
        click.echo(json.dumps(report.json_report(comparison), indent=2))
    else:
        click.echo(report.text_report(comparison, color=_wants_color(), width=_width(), unicode=_can_unicode()))
    if html:
        click.echo(f"The page: {html}", err=True)
    sys.exit(0 if comparison.verdict.ok else EXIT_NOT_SHOWN)


def _measured(plan: Plan) -> Comparison:
    """Compare; when that fails, say why and exit."""
    from flaskstream.lab.compare import compare as measure
    from flaskstream.lab.processes import ProcessFailed

    progress = _Progress()
    came: list[int] = []
    try:
        with _signals_raise(came):
            comparison = measure(plan, progress)
    except BaseException as error:
        progress.clear()
        if came:  # whatever became of the exception that the signal raised, somewhere in the middle
            name = signal.Signals(came[0]).name
            _fail(f"interrupted by {name}; all that was started has ended", EXIT_SIGNAL + came[0])
        if isinstance(error, ProcessFailed):
            _fail(str(error), EXIT_NOT_MEASURED)
        raise
    progress.clear()
    return comparison


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8801, show_default=True, help="0: a free one.")
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


class _Interrupted(BaseException):
    """A signal that ends the command, after what it started."""


@contextlib.contextmanager
def _signals_raise(came: list[int]) -> Iterator[None]:
    """Have a signal that would end this process raise `_Interrupted` instead, so that it can tidy up.

    The numbers of those that came are added to the list: the exception itself may not get through, for what it
    interrupts may raise another in its place.

    A signal that is ignored stays so: whoever started this under `nohup`, or in the background, has said so.
    """

    def interrupt(number: int, frame: object) -> NoReturn:
        came.append(number)
        raise _Interrupted

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def _wants_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")  # https://no-color.org


def _width() -> int:
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def _can_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
