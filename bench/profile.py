"""Say where the time of a server goes, function by function: `python -m bench.profile --subject flaskstream`.

It needs Linux's `perf`, and a Python from 3.12 on, which can tell it its own functions. What a function of Python's
takes stands for it and for what it calls in C, the kernel included.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import Iterator, List, Tuple

import click

from bench.cpu import seconds as cpu_seconds
from bench.cpu import seconds_of_tree
from bench.drive import load_server
from bench.load import Measured
from bench.processes import Failed, upstream
from bench.servers import Server
from bench.subjects import KIT, SUBJECTS, NotHere

RAMP, WARM_UP = 1.0, 1.0  # seconds
SAMPLES_A_SECOND = 399
STACK_BYTES = 16_384
LEAST_PERCENT = 0.3
_LOOK_SECONDS = 0.5  # for which it is looked which process of the server works

_LINE = re.compile(r"^\s+([\d.]+)%\s+[\d.]+%\s+\[(.)\]\s+(.+?)\s*$")
_OF_PYTHON = re.compile(r"py::(.+?):(?:.*/)?((?:[^/]+/)?[^/]+\.py)$")


Shares = List[Tuple[float, str]]


def profile(server: Server, upstream_pid: int, streams: int, seconds: float) -> tuple[Measured, Shares]:
    """Return what was measured of a server, and for its functions the percent of its time.

    Raises:
        Failed: `perf` cannot be had, or does not tell.
    """
    with tempfile.NamedTemporaryFile(suffix=".perf") as data:
        timer = threading.Timer(RAMP + WARM_UP, _record, (server.pid, data.name, seconds))
        timer.start()
        wanted = [
            f"--streams={streams}",
            f"--ramp={RAMP}",
            f"--warm-up={WARM_UP}",
            f"--seconds={seconds + _LOOK_SECONDS + 1}",
        ]
        measured = load_server(server, upstream_pid, {"interval_ms": 50}, wanted)
        timer.join()
        return measured, list(_shares(data.name))


def _record(first: int, path: str, seconds: float) -> None:
    before = seconds_of_tree(first)
    time.sleep(_LOOK_SECONDS)
    pid = max(before, key=lambda pid: cpu_seconds(pid) - before[pid])
    graph = ["--call-graph", f"dwarf,{STACK_BYTES}", "-F", str(SAMPLES_A_SECOND)]
    command = ["perf", "record", *graph, "-o", path, "-p", str(pid), "--", "sleep", str(seconds)]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _shares(path: str) -> Iterator[tuple[float, str]]:
    command = ["perf", "report", "-i", path, "--children", "--sort", "sym", "--stdio", "-g", "none"]
    told = subprocess.run(command, capture_output=True, check=False)
    if told.returncode:
        raise Failed(f"perf report failed: {told.stderr.decode('utf-8', 'replace')[-500:]}")
    for line in told.stdout.decode("utf-8", "replace").splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        percent, kind, name = float(found.group(1)), found.group(2), found.group(3)
        python = _OF_PYTHON.search(name)
        if python is not None:
            yield percent, f"{python.group(1)} ({python.group(2)})"
        elif kind == "k" and name.startswith("__x64_sys_"):
            yield percent, f"the kernel: {name[len('__x64_sys_') :]}"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--subject", default=KIT, type=click.Choice(list(SUBJECTS)), help="Which server.")
@click.option("--streams", type=click.IntRange(min=1), default=300, show_default=True, help="How many at once.")
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=5.0, show_default=True, help="For which it is watched."
)
def main(subject: str, streams: int, seconds: float) -> None:
    """Say where the time of a server goes."""
    if sys.version_info < (3, 12):
        raise click.ClickException(f"expected Python 3.12 or later, got {sys.version.split()[0]}")
    if shutil.which("perf") is None:
        raise click.ClickException("expected the program perf (on Debian: apt-get install linux-perf), found none")
    os.environ["PYTHONPERFSUPPORT"] = "1"
    try:
        with upstream() as (url, pid), Server(SUBJECTS[subject], url) as server:
            measured, shares = profile(server, pid, streams, seconds)
    except (Failed, NotHere) as why:
        raise click.ClickException(str(why)) from None
    each = measured.cpu["server"] / measured.tokens * 1e6
    click.echo(f"{subject}, {streams} streams: {each:.1f} us for a token (with perf's own work)")
    for percent, name in shares:
        if percent >= LEAST_PERCENT:
            click.echo(f"{percent:5.1f} %  {name}")


if __name__ == "__main__":
    main()
