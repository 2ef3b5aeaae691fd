"""`flaskstream check`."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from flaskstream.cli.asking import UsageExit, curl_options, request_of
from flaskstream.cli.console import can_unicode, say, terminal_width, tidying_up, wants_color
from flaskstream.errors import InvalidSetting


@click.command(cls=UsageExit)
@click.argument("words", metavar="[MODULE:APP] [PATH]", nargs=-1)
@curl_options
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    default="",
    help="The app is loaded as gunicorn -c FILE loads it. Default: ./gunicorn.conf.py, which gunicorn takes by itself,"
    " or python:flaskstream.gunicorn_conf where there is none. none: without gunicorn, and nothing is patched.",
)
@click.option("--pieces", default=12, show_default=True, help="Ask the view for no more than so many.")
@click.option("--seconds", default=10.0, show_default=True, help="And for no longer than so many seconds.")
@click.option("--load-seconds", default=30.0, show_default=True, help="The app may take so long to load.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(
    words: tuple[str, ...],
    method: str | None,
    headers: tuple[tuple[str, str], ...],
    data: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Find what eats a stream inside of the process: hook, extension or middleware, by file and line.

    Loads the app in a process of its own, calls it once with a request for PATH, as a browser sends it, and watches
    each piece of the body on its way from the view through every after_request function and WSGI middleware. The
    app is not served, and nothing is sent anywhere; what the view itself does, it does. Where a compressor holds a GET,
    it is asked once more without one.

    Also tells which ways to read an upstream hand over what is there, in this process (tried on this machine, at an
    upstream of its own), whether gevent has patched in time, whether TLS works, who drops close(), which print does not
    flush. Without PATH no view is run: the routes are listed. As flask flaskstream check PATH the app is that of flask.

    Exit codes: 0 streams; 1 held; 3 cannot tell, or no place to write to; 64 usage; 130 Ctrl-C.
    """
    from flaskstream.doctor.check.examine import check as examine
    from flaskstream.doctor.check.paced import PacedUpstream
    from flaskstream.doctor.check.question import Question
    from flaskstream.doctor.check.report import json_report, text_report

    target, path, loader = _target_and_path(words, click.get_current_context())
    asked = request_of(method, headers, data)
    try:
        question = Question(
            target, path, loader=loader, method=asked.method, headers=asked.headers, body=asked.body or b"", **how
        )
    except InvalidSetting as error:
        raise click.UsageError(str(error)) from error
    with tidying_up(), PacedUpstream() as paced:
        checked = examine(question, paced)
    if as_json:
        say(json.dumps(json_report(checked), indent=2))
    else:
        say(text_report(checked, color=wants_color(), width=terminal_width(), unicode=can_unicode()), nl=False)
    sys.exit(checked.verdict.exit_code)


def _target_and_path(words: tuple[str, ...], context: click.Context) -> tuple[str, str, str]:
    """Return the app, the path, and by whom the app is named so."""
    from flaskstream.doctor.check.question import FLASK, GUNICORN

    paths = [word for word in words if word.startswith("/")]
    targets = [word for word in words if not word.startswith("/")]
    if len(paths) > 1 or len(targets) > 1 or words != (*targets, *paths):
        raise click.UsageError(f"expected MODULE:APP and then a PATH that begins with /, got {' '.join(words)}")
    path = "".join(paths)
    if targets:
        return targets[0], path, GUNICORN
    info = context.find_root().obj  # flask's ScriptInfo, where this is a command of flask
    if not hasattr(info, "app_import_path"):
        raise click.UsageError("expected MODULE:APP, such as wsgi:app")
    if info.create_app is not None:
        raise click.UsageError("this flask command makes its app itself: name it as MODULE:APP")
    return info.app_import_path or "", path, FLASK
