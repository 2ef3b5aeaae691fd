"""`flaskstream compare`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from flaskstream.cli.console import (
    EXIT_NOT_MEASURED,
    Progress,
    can_unicode,
    fail,
    say,
    terminal_width,
    tidying_up,
    wants_color,
    writable_page,
    write_page,
)
from flaskstream.errors import FlaskStreamError

if TYPE_CHECKING:
    from flaskstream.lab.plan import Plan
    from flaskstream.lab.results import Comparison

EXIT_NOT_SHOWN = 1
"""Fixed does not stream, or broken does."""


@click.command()
@click.option("--clients", default=4, show_default=True, help="How many read at once.")
@click.option("--tokens", default=24, show_default=True, help="How many tokens the model says to each.")
@click.option("--interval-ms", default=50, show_default=True, help="Milliseconds between two tokens.")
@click.option(
    "--serve",
    is_flag=True,
    help="Measure nothing: keep both modes running, and print the address of a page that shows them side by side.",
)
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
@click.option(
    "--html", type=click.Path(dir_okay=False, writable=True), callback=writable_page, help="Write a page as well."
)
def compare(faults: str | None, serve: bool, as_json: bool, html: str | None, **numbers: Any) -> None:
    """Start the right way and the wrong way side by side, and show the difference.

    Starts a model server, gunicorn in the fixed mode and gunicorn in the broken mode on free ports, reads from both
    with several clients at once, then switches each mistake on alone. Ends all that it started.

    With --serve it keeps both running until Ctrl-C, for a page that shows them; --faults says which mistakes it offers.

    Exit codes: 0 fixed streams and broken does not; 1 otherwise; 2 usage; 3 a server did not start, or there is no
    place to write to; 130 Ctrl-C.
    """
    from flaskstream.lab import report, report_html
    from flaskstream.lab.plan import Plan

    names = None if faults is None else tuple(name.strip() for name in faults.split(",") if name.strip())
    try:
        plan = Plan(faults=names, **numbers)
    except FlaskStreamError as error:
        raise click.UsageError(str(error)) from error
    if serve:
        if as_json or html:
            raise click.UsageError("--serve: expected neither --json nor --html, for nothing is measured")
        _serve(plan)
    comparison = _measured(plan)
    if as_json:
        say(json.dumps(report.json_report(comparison), indent=2))
    else:
        say(report.text_report(comparison, color=wants_color(), width=terminal_width(), unicode=can_unicode()))
    if html:
        write_page(html, report_html.html_report(comparison))
    sys.exit(0 if comparison.verdict.ok else EXIT_NOT_SHOWN)


def _serve(plan: Plan) -> NoReturn:
    """Keep both modes running for the page, until a signal comes."""
    from flaskstream.lab.processes import ProcessFailed
    from flaskstream.lab.side_by_side import side_by_side

    progress = Progress()
    try:
        with tidying_up(progress.clear), side_by_side(plan, progress) as servers:
            progress.clear()
            say(_SERVED.format(**vars(servers)))
            servers.wait()
    except ProcessFailed as error:
        fail(str(error), EXIT_NOT_MEASURED)
    raise AssertionError("it waits until it is interrupted")


_SERVED = """Broken and fixed, side by side:

  {page}

  fixed   {fixed}
  broken  {broken}
  desk    {desk}  chooses the mistake, tells the debug lines
  model   {model}

Ctrl-C ends them all."""


def _measured(plan: Plan) -> Comparison:
    """Compare; when that fails, say why and exit."""
    from flaskstream.lab.compare import compare as measure
    from flaskstream.lab.processes import ProcessFailed

    progress = Progress()
    try:
        with tidying_up(progress.clear):
            comparison = measure(plan, progress)
    except ProcessFailed as error:
        fail(str(error), EXIT_NOT_MEASURED)
    progress.clear()
    return comparison
