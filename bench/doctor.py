"""How often the doctor is right: `python -m bench.doctor` tries it on all of tests/hops, and 200 times on healthy ones.

Each case is real programs on this machine. What is expected stands in tests/hops/cases.py.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Iterator, Mapping, Sequence

import click

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from hops import cases as known  # noqa: E402 - the tests are no package that is installed
from hops.cases import CASES, HEALTHY, Case, is_right, judged  # noqa: E402
from hops.stack import NotHere, Stand  # noqa: E402
from proxies.process import ProxyFailed  # noqa: E402

from flaskstream.doctor.chain import judge  # noqa: E402
from flaskstream.doctor.examine import examine  # noqa: E402
from flaskstream.doctor.look import Looker  # noqa: E402

SCHEMA_VERSION = 1

PAGE = ROOT / "docs" / "doctor.md"
BEGIN, END = "<!-- bench.doctor: begin -->", "<!-- bench.doctor: end -->"

GROUPS: Mapping[str, Mapping[str, Case]] = {
    "nginx": known.NGINX,
    "HAProxy": known.HAPROXY,
    "Caddy": known.CADDY,
    "Apache": known.APACHE,
    "lighttpd": known.LIGHTTPD,
    "Node": known.NODE,
    "apps and servers": known.APPS,
    "chains": known.CHAINS,
    "the lab": known.LAB,
}

AT_ONCE = 4
"""Cases that run side by side: they wait most of the time."""

HEALTHY_AT_ONCE = 4


@dataclass(frozen=True)
class Outcome:
    """What the doctor said of a case.

    Attributes:
        name: of the case.
        verdicts: on each hop, outermost first; none: it could not be started here.
        cause: the first one of the outermost hop that is at fault; "": there is none.
        is_right: that was expected.
        alone: whether the same was said with the outermost hop alone named; `None`: that was no question there.
        seconds: how long it took.
        problem: why it could not be started.
    """

    name: str
    verdicts: tuple[str, ...] = ()
    cause: str = ""
    is_right: bool = False
    alone: bool | None = None
    seconds: float = 0.0
    problem: str = ""

    @property
    def is_told(self) -> bool:
        return self.cause != "unknown" or CASES[self.name].cause == known.ANY

    @property
    def mark(self) -> str:
        if self.problem:
            return "not here"
        return "right" if self.is_right else "wrong" if self.is_told else "cannot tell"


def run_case(name: str) -> Outcome:
    """Start the hops of a case, examine them, and return what was said."""
    case = CASES[name]
    try:
        with Stand() as stand:
            lookers = [Looker(url) for url in stand.urls(case.servers, case.endpoint)]
            diagnosis = examine(lookers, case.silence_seconds)
    except (NotHere, ProxyFailed) as error:
        return Outcome(name, problem=" ".join(str(error).split())[:200])
    verdicts, cause = judged(diagnosis.hops)
    (outermost,) = judge([diagnosis.hops[0].evidence])
    is_question = all(verdict == known.FINE for verdict in case.verdicts[1:])
    alone = known.allows(case.verdicts[0], outermost.verdict.name) if is_question else None
    return Outcome(name, verdicts, cause, is_right(case, diagnosis.hops), alone, diagnosis.seconds)


def run_all(names: Sequence[str], at_once: int = AT_ONCE) -> Iterator[Outcome]:
    """Yield the outcome of each case, in their order."""
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(run_case, names)


def false_alarms(runs: int) -> tuple[int, list[str]]:
    """Examine healthy hops so many times while every core computes; return how often, and what was said wrongly."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    alarms: list[str] = []
    lock = threading.Lock()
    try:
        with Stand() as stand:
            urls = [(name, stand.urls(CASES[name].servers)[0]) for name in HEALTHY if _is_here(stand, name)]

            def run(n: int) -> None:
                name, url = urls[n % len(urls)]
                (hop,) = examine([Looker(url)]).hops
                if hop.verdict.name != known.FINE:
                    with lock:
                        alarms.append(f"{name}: {hop.verdict.name}: {hop.verdict.sentence}")

            with ThreadPoolExecutor(HEALTHY_AT_ONCE) as pool:
                list(pool.map(run, range(runs)))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    return runs, alarms


def _is_here(stand: Stand, name: str) -> bool:
    try:
        return bool(stand.urls(CASES[name].servers))
    except NotHere:
        return False


def as_markdown(outcomes: Sequence[Outcome], runs: int, alarms: Sequence[str]) -> str:
    """Return the tables for the page."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    lines = [
        f"Measured on {time.strftime('%Y-%m-%d')} with Python {platform.python_version()} on {os.cpu_count()} cores.",
        "",
        "| hops | cases | right | wrong | cannot tell | not here |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for group, cases in {**GROUPS, "all": CASES}.items():
        marks = [by_name[name].mark for name in cases if name in by_name]
        counts = [marks.count(mark) for mark in ("right", "wrong", "cannot tell", "not here")]
        lines.append(f"| {group} | {len(marks)} | {' | '.join(map(str, counts))} |")
    alone = [outcome.alone for outcome in outcomes if outcome.alone is not None]
    lines += [
        "",
        f"With the URL of the outermost hop alone the verdict on it was right in {sum(alone)} of {len(alone)}.",
    ]
    if runs:
        lines += ["", f"Healthy hops, examined while every core computed: {runs} times, {len(alarms)} false alarms."]
    lines += ["", "| hops, outermost first | said | first cause | |", "| --- | --- | --- | --- |"]
    lines += [_row(outcome) for outcome in outcomes]
    return "\n".join(lines)


def _row(outcome: Outcome) -> str:
    said = outcome.problem or ", ".join(outcome.verdicts)
    return f"| {outcome.name} | {said} | {outcome.cause or '-'} | {outcome.mark} |"


def write_page(tables: str) -> None:
    """Put the tables into the page, between their marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}")


@click.command()
@click.argument("patterns", nargs=-1)
@click.option("--healthy", default=200, show_default=True, help="Times that healthy hops are examined under load.")
@click.option("--write", is_flag=True, help="Write the tables into docs/doctor.md.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Write all outcomes into this file.")
def main(patterns: Sequence[str], healthy: int, write: bool, json_file: str | None) -> None:
    """Try the doctor on all hops of tests/hops, or on those with one of PATTERNS in their names."""
    names = [name for name in CASES if not patterns or any(pattern in name for pattern in patterns)]
    outcomes = []
    for outcome in run_all(names):
        said = outcome.problem or f"{', '.join(outcome.verdicts)}; {outcome.cause or 'no cause'}"
        click.echo(f"{outcome.mark:12}{outcome.name}: {said} ({outcome.seconds:.1f} s)")
        outcomes.append(outcome)
    runs, alarms = false_alarms(healthy) if healthy else (0, [])
    for alarm in alarms:
        click.echo(f"false alarm {alarm}")
    tables = as_markdown(outcomes, runs, alarms)
    click.echo(tables[: tables.index("| hops, outermost")])
    if write:
        write_page(tables)
    if json_file:
        told = {"schema_version": SCHEMA_VERSION, "cases": [asdict(outcome) for outcome in outcomes], "alarms": alarms}
        pathlib.Path(json_file).write_text(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
