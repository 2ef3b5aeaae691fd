"""`flaskstream doctor`."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import click

from flaskstream.cli.asking import Seconds, UsageExit, request_of, request_options, tls_context
from flaskstream.cli.console import (
    EXIT_INTERRUPTED,
    Progress,
    can_unicode,
    say,
    terminal_width,
    wants_color,
    writable_page,
    write_page,
)
from flaskstream.errors import InvalidSetting

if TYPE_CHECKING:
    from flaskstream.doctor.look import Looker


@click.command(cls=UsageExit)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@request_options
@click.option("--silence", type=Seconds(0, 600), default=0.0, help="Seconds of silence to survive, too.")
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
    from flaskstream.doctor.report_html import html_report

    progress = Progress(is_quiet=quiet)
    tls = tls_context(insecure)
    try:
        asked = request_of(method, headers, data)
        lookers = [
            Looker(url, asked.headers, tls, asked.method, asked.body) for url in (*urls, *filter(None, (probe,)))
        ]
    except InvalidSetting as error:
        raise click.UsageError(str(error)) from error
    if method is not None or data is not None:
        _refuse_probes(lookers[: len(urls)])
    try:
        diagnosis = examine(lookers, silence, progress)
    except KeyboardInterrupt:
        progress.clear()
        click.echo("Error: interrupted", err=True)
        sys.stdout.flush()
        os._exit(EXIT_INTERRUPTED)  # at once: the threads that look may wait for a server that never answers
    progress.clear()
    if as_json:
        say(json.dumps(diagnosis.as_json(), indent=2))
    else:
        shown = text_report(diagnosis, color=wants_color(), width=terminal_width(), unicode=can_unicode(), quiet=quiet)
        say(shown, nl=False)
    if html:
        write_page(html, html_report(diagnosis))
    sys.exit(exit_code_of(diagnosis))


def _refuse_probes(lookers: list[Looker]) -> None:
    """The probe is asked in the doctor's own ways, so a method or a body would say nothing."""
    for looker in lookers:
        if looker.is_probe:
            raise click.UsageError(
                f"-X and -d: expected the URL of an ordinary endpoint, got the probe, {looker.url}"
                " (beside an endpoint it is named with --probe)"
            )
