"""`flaskstream doctor`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from flaskstream.cli.asking import UsageExit, request_of, request_options, tls_context
from flaskstream.cli.console import Progress, can_unicode, terminal_width, wants_color, writable_page
from flaskstream.errors import InvalidSetting

if TYPE_CHECKING:
    from flaskstream.doctor.diagnosis import Diagnosis


@click.command(cls=UsageExit)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@request_options
@click.option("--silence", type=click.FloatRange(0, 600), default=0.0, help="Seconds of silence to survive, too.")
@click.option("--probe", metavar="URL", help="The probe beside an ordinary endpoint: it splits the problem in half.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--html", type=click.Path(dir_okay=False, writable=True), callback=writable_page, help="Write a page too."
)
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict only.")
def doctor(
    urls: tuple[str, ...],
    headers: tuple[tuple[str, str], ...],
    insecure: bool,
    method: str | None,
    data: str | None,
    silence: float,
    probe: str | None,
    as_json: bool,
    html: str | None,
    quiet: bool,
) -> None:
    """Find the hop that holds the bytes, and say why and what to change.

    Give the URL of the probe (/stream/probe, which create_blueprint(debug=["probe"]) mounts) at each hop, outermost
    first: the CDN, the proxy, the app server itself. An ordinary streaming URL can be given too; then name the probe
    beside it with --probe.

    Exit codes: 0 every hop streams; 1 one holds; 2 one cuts; 3 cannot tell; 64 usage; 130 Ctrl-C.
    """
    from flaskstream.doctor.examine import examine
    from flaskstream.doctor.look import Looker
    from flaskstream.doctor.outcome import exit_code_of
    from flaskstream.doctor.report import text_report

    progress = Progress()
    tls = tls_context(insecure)
    try:
        asked = request_of(method, headers, data)
        lookers = [
            Looker(url, asked.headers, tls, asked.method, asked.body) for url in (*urls, *filter(None, (probe,)))
        ]
    except InvalidSetting as error:
        raise click.UsageError(str(error)) from error
    try:
        diagnosis = examine(lookers, silence, progress)
    finally:
        progress.clear()
    _print(diagnosis, as_json, html)
    if not as_json:
        shown = text_report(diagnosis, color=wants_color(), width=terminal_width(), unicode=can_unicode(), quiet=quiet)
        click.echo(shown, nl=False)
    sys.exit(exit_code_of(diagnosis))


def _print(diagnosis: Diagnosis, as_json: bool, html: str | None) -> None:
    if html:
        from flaskstream.doctor.report_html import html_report

        with open(html, "w", encoding="utf-8") as file:
            file.write(html_report(diagnosis))
        click.echo(f"The page: {html}", err=True)
    if as_json:
        click.echo(json.dumps(diagnosis.as_json(), indent=2))
