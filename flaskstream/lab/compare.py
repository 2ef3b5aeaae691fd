"""The main job: the right way and the wrong way side by side, and each mistake alone. Measures; it judges nothing."""

from __future__ import annotations

import os
import platform
import time
from contextlib import ExitStack
from importlib import metadata
from typing import Callable, Mapping

from flaskstream.lab.bench import Bench, Case
from flaskstream.lab.faults import Fault
from flaskstream.lab.plan import Plan
from flaskstream.lab.processes import ModelProcess
from flaskstream.lab.results import Comparison, FaultLine
from flaskstream.lab.runs import ServerRun


def compare(plan: Plan, progress: Callable[[str], None] = lambda text: None) -> Comparison:
    """Measure it all and return what was seen. Everything that is started here has ended when it returns or raises.

    Args:
        plan: what to compare.
        progress: called with a few words about what is being done.

    Raises:
        ProcessFailed: a server did not start.
    """
    began = time.monotonic()
    cases = [Case("fixed"), Case("broken")]
    for fault in plan.chosen_faults:
        cases += [Case("fixed", fault.scenario), Case(fault.name, fault.scenario)]
    with ExitStack() as stack:
        model = None if plan.upstream else stack.enter_context(ModelProcess())
        runs = Bench(plan, model, progress).run_all(cases)
    return Comparison(
        fixed=runs[Case("fixed")],
        broken=runs[Case("broken")],
        faults=tuple(_fault_line(fault, runs) for fault in plan.chosen_faults),
        machine=machine(),
        seconds=time.monotonic() - began,
    )


def _fault_line(fault: Fault, runs: Mapping[Case, ServerRun]) -> FaultLine:
    faulty, control = runs[Case(fault.name, fault.scenario)], runs[Case("fixed", fault.scenario)]
    seen, also_without = fault.signature(faulty), fault.signature(control)
    if seen and not also_without:
        evidence = seen
    else:
        evidence = f"the fixed mode shows it too: {also_without}" if seen else "its signature was not seen"
    return FaultLine(
        name=fault.name,
        sentence=fault.sentence,
        cure=fault.cure,
        cause=fault.cause,
        faulty=faulty,
        control=control,
        shows=bool(seen and not also_without),
        evidence=evidence,
    )


def machine() -> str:
    """Name the machine and the releases that a figure was measured with."""
    packages = ("flask", "gunicorn", "gevent", "requests")
    releases = ", ".join(f"{name} {_release(name)}" for name in packages)
    cores = os.cpu_count() or 1
    return (
        f"{platform.system()} {platform.machine()}, {cores} core{'s' if cores > 1 else ''},"
        f" Python {platform.python_version()}, {releases}"
    )


def _release(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown release"
