"""What the kit costs beside its peers: `python -m bench`, which `make bench` runs with all of them installed."""

from __future__ import annotations

import pathlib
import signal
import sys
import time
from typing import Any, Mapping, Sequence

import click

from bench import descriptors
from bench.budget import budget
from bench.case import Row, Run
from bench.cases import CASES
from bench.json_file import json_option, write_json
from bench.machine import machine
from bench.processes import Failed
from bench.running import middle
from bench.subjects import SUBJECTS
from bench.table import replaced, report

SCHEMA_VERSION = 1

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"

MISSED = 1
"""The exit code of `--check` where a line of the budget was missed."""


_COUNT = click.IntRange(min=1)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Less exact, in less than two minutes beside the set-up.")
@click.option("--only", type=click.Choice(list(CASES)), multiple=True, help="This kind of work; default: all.")
@click.option("--subject", "subjects", type=click.Choice(list(SUBJECTS)), multiple=True, help="Default: all.")
@click.option("--streams", type=_COUNT, multiple=True, help="How many at once, where that is varied.")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="For which each figure is measured.")
@click.option("--rounds", type=_COUNT, help="In each of which every server has its turn.")
@click.option(
    "--interval", "interval_ms", type=_COUNT, default=Run.interval_ms, help="Milliseconds between two relayed tokens."
)
@click.option("--event-bytes", type=_COUNT, default=Run.event_bytes, help="Of each relayed token.")
@json_option
@click.option("--write", is_flag=True, help=f"Put the tables into {PAGE.parent.name}/{PAGE.name}.")
@click.option("--check", is_flag=True, help=f"Exit with {MISSED} where a line of the budget was missed.")
def main(
    only: Sequence[str],
    json_file: pathlib.Path | None,
    write: bool,
    check: bool,
    **terms: Any,
) -> None:
    """Measure the kit beside its peers on this machine."""
    run = Run(**terms, say=lambda words: click.echo(words, err=True))
    if write:  # what does not work is told now, and not in a quarter of an hour
        if only or run.quick or run.subjects or run.streams:
            raise click.UsageError(
                "--write: expected a whole run, got --quick, or a part of one: it replaces all tables"
            )
        _page_with("")
    try:
        result = measure(run, only or list(CASES))
    except Failed as error:
        raise click.ClickException(str(error)) from None
    text = report(result, CASES)
    click.echo(text)
    write_json(json_file, result)
    if write:
        PAGE.write_text(_page_with(text))
    if check and not any(line["value"] is not None for line in result["budget"]):
        raise click.ClickException("--check: expected some line of the budget, got kinds of work that have none")
    if check and any(line["verdict"] == "missed" for line in result["budget"]):
        sys.exit(MISSED)


def _page_with(text: str) -> str:
    try:
        return replaced(PAGE.read_text(), text, BEGIN, END)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{PAGE}: {error}") from None


def measure(run: Run, names: Sequence[str]) -> dict[str, Any]:
    """Measure these kinds of work; return what stands in JSON."""
    descriptors.allow_all()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and all servers end too
    began = time.monotonic()
    cases = {name: CASES[name].run(run) for name in names}
    for name in [name for name, rows in cases.items() if not rows]:
        run.skip(name, "none of the chosen servers takes part in it")
    return {
        "schema_version": SCHEMA_VERSION,
        "machine": machine(),
        "quick": run.quick,
        "seconds": round(time.monotonic() - began, 1),
        "others": _others(cases),
        "budget": [line.as_json() for line in budget(cases) if line.value is not None or len(names) == len(CASES)],
        "cases": cases,
        "subjects": {name: subject.words for name, subject in SUBJECTS.items() if run.wants(name)},
        "skipped": run.skipped,
    }


def _others(cases: Mapping[str, Sequence[Row]]) -> dict[str, float] | None:
    """Return what everybody else took of a core while a row was measured: in the middle, and at most."""
    found = [row["others"] for rows in cases.values() for row in rows if row.get("others") is not None]
    return {"median": middle(found, 2) or 0.0, "most": round(max(found), 2)} if found else None


if __name__ == "__main__":
    main()
