"""Many machines at once, played by one program: `python -m bench.simulation --streams 100000`.

The machines are those of `bench.sizing`. Before them stands a balancer; they are deployed one after the other, and then
one is lost. What is seen: how evenly the streams spread, how busy the busiest worker is, how long a token waits, how
soon all clients are back, how many connections a second that makes.
"""

from __future__ import annotations

import math
import pathlib
import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Sequence

import click

from bench.capacity import Site, Size, size
from bench.case import milliseconds, number, percent
from bench.fleet import BALANCERS, Terms
from bench.fleet_events import Simulation, seeded
from bench.fleet_look import Look
from bench.json_file import json_option, write_json
from bench.machine import machine
from bench.queueing_check import Checked, check_all
from bench.sizing import site_options
from bench.table import grid

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Phase:
    """What was seen in one phase of a run; times in milliseconds, unless they say else.

    Attributes:
        name: `quiet`, `deploy`, `after it`, or `loss`.
        streams: the most that had a place.
        by_machine, by_worker: the most of one beside the mean, in the middle of all seconds.
        busiest: of a worker's core, in its worst second.
        wait: of a token in the mean, in the worst second.
        worst_p99: of the worst worker, in its worst second.
        starts_per_second, starts_on_one: connections: the most in a second, on all machines and on one.
        refused: connections that were, in all.
        away: the most clients that had no place, at the end of a second.
        back_seconds: from the moment when the first client of a machine was driven out until all of them were back.
    """

    name: str
    streams: int
    by_machine: float
    by_worker: float
    busiest: float
    wait: float
    worst_p99: float
    starts_per_second: int
    starts_on_one: int
    refused: int
    away: int
    back_seconds: float | None


def terms_of(site: Site, found: Size, balancer: str, store: bool, graceful: float) -> Terms:
    """Return what is simulated, for machines of this size."""
    return Terms(
        streams=site.streams,
        machines=found.machines,
        workers=found.workers_per_machine,
        rate=site.rate,
        seconds=site.seconds,
        cost=site.cost_us / 1e6,
        start_cost=site.start_us / 1e6,
        limit=found.max_streams,
        balancer=balancer,
        retry_ms=site.retry_ms,
        together=max(1, site.spare),
        store=store,
        graceful=graceful,
    )


def simulate(terms: Terms, seed: int) -> tuple[Simulation, list[Phase]]:
    """Run once; return the run and its phases."""
    with seeded(seed):
        done = Simulation(terms).run()
    bounds = (0.0, terms.steady, terms.deployed_at, terms.lose_at, math.inf)
    kinds = (None, "deploy", None, "loss")
    found = []
    for name, kind, begins, ends in zip(("quiet", "deploy", "after it", "loss"), kinds, bounds, bounds[1:]):
        looks = [look for look in done.looks if begins < look.at <= ends]
        back = [storm.last_back - storm.began for storm in done.storms if storm.kind == kind]
        found.append(_phase(name, looks, max(back, default=None)))
    return done, found


def _phase(name: str, looks: Sequence[Look], back: float | None) -> Phase:
    def most(of: str) -> Any:
        return max(getattr(look, of) for look in looks)

    return Phase(
        name=name,
        streams=most("streams"),
        by_machine=round(median(look.by_machine for look in looks), 3),
        by_worker=round(median(look.by_worker for look in looks), 3),
        busiest=round(most("busiest"), 3),
        wait=round(most("wait") * 1000, 3),
        worst_p99=round(most("worst_p99") * 1000, 2),
        starts_per_second=most("starts"),
        starts_on_one=most("starts_on_one"),
        refused=sum(look.refused for look in looks),
        away=most("away"),
        back_seconds=None if back is None else round(back, 1),
    )


_TITLES = (
    *("balancer", "phase", "streams", "machines", "workers", "busiest", "wait", "p99 of the worst"),
    *("starts a second", "on one machine", "refused", "away", "all back in"),
)


def cells(balancer: str, phase: Phase) -> Sequence[str]:
    return (
        balancer,
        phase.name,
        number(phase.streams),
        f"{phase.by_machine:.2f}",
        f"{phase.by_worker:.2f}",
        percent(phase.busiest),
        milliseconds(phase.wait),
        milliseconds(phase.worst_p99),
        number(phase.starts_per_second),
        number(phase.starts_on_one),
        number(phase.refused),
        number(phase.away),
        "" if phase.back_seconds is None else f"{phase.back_seconds:.1f} s",
    )


def check_table(checked: Sequence[Checked]) -> str:
    """Return the computed waits beside the exact ones."""
    titles = ("busy", "mean: computed", "exact", "even tokens", "p99: computed", "exact", "even tokens")
    lines = [
        (percent(one.utilisation), *(milliseconds(value) for value in list(asdict(one).values())[1:]))
        for one in checked
    ]
    return grid(titles, lines)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@site_options
@click.option("--balancer", "balancers", type=click.Choice(list(BALANCERS)), multiple=True, help="Default: all.")
@click.option("--store", is_flag=True, help="Answers are in a store that all machines reach, and go on elsewhere.")
@click.option("--graceful", default=Terms.graceful, show_default=True, help="gunicorn's graceful_timeout, seconds.")
@click.option("--seed", default=1, show_default=True, help="All chance comes from it.")
@click.option("--check", is_flag=True, help="Also compare what is computed with a queue of single tokens.")
@json_option
def main(
    balancers: Sequence[str],
    store: bool,
    graceful: float,
    seed: int,
    check: bool,
    json_file: pathlib.Path | None,
    **given: Any,
) -> None:
    """Simulate the machines that `bench.sizing` finds for these streams, through a deploy and the loss of one."""
    site, found = _sized(**given)
    if graceful <= 0:
        raise click.UsageError(f"--graceful: expected seconds above 0, got {graceful:g}")
    began = time.monotonic()
    runs, lines = {}, []
    for balancer in balancers or list(BALANCERS):
        click.echo(f"{found.machines} machines, {balancer}", err=True)
        done, phases = simulate(terms_of(site, found, balancer, store, graceful), seed)
        counts, looks = dict(done.counts), list(map(asdict, done.looks))
        runs[balancer] = {"counts": counts, "phases": list(map(asdict, phases)), "looks": looks}
        lines += [cells(balancer, phase) for phase in phases]
    checked = check_all(seed) if check else []
    result = {
        "schema_version": SCHEMA_VERSION,
        "machine": machine(),
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
        "store": store,
        "graceful": graceful,
        "site": asdict(site),
        "size": asdict(found),
        "runs": runs,
        "check": list(map(asdict, checked)),
    }
    write_json(json_file, result)
    click.echo(
        f"{number(site.streams)} streams on {found.machines} machines of {found.workers_per_machine} workers,"
        f" {'with' if store else 'without'} a store, seed {seed}; simulated in {result['seconds']:.0f} s.\n"
    )
    click.echo(grid(_TITLES, lines))
    if checked:
        click.echo("\n" + check_table(checked))


def _sized(**given: Any) -> tuple[Site, Size]:
    try:
        site = Site(**given)
        found = size(site)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if found.machines < 2:
        raise click.UsageError("--spare: expected a machine that may be lost, got none")
    return site, found


if __name__ == "__main__":
    main()
