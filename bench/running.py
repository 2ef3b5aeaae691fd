"""The servers of a kind of work, all running at once: the rounds go from one to the next, on the same machine."""

from __future__ import annotations

import contextlib
import time
from statistics import median
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from bench import cpu
from bench.case import MIN_HEADROOM, Column, Run, percent
from bench.load import Measured
from bench.processes import Failed
from bench.servers import Server
from bench.subjects import NAIVE, OURS, SUBJECTS, NotHere


@contextlib.contextmanager
def running(
    run: Run, names: Sequence[str], upstream: str, environment: Mapping[str, str] | None = None
) -> Iterator[list[Server]]:
    """Start these subjects, those that can be had; the others are skipped aloud."""
    wanted = [name for name in names if run.wants(name)]
    with contextlib.ExitStack() as stack:
        started = []
        for name in wanted:
            try:
                started.append(stack.enter_context(Server(SUBJECTS[name], upstream, environment)))
            except NotHere as why:
                run.skip(name, str(why))
        yield [server for server in started if _answers(run, server)]


def _answers(run: Run, server: Server) -> bool:
    try:
        server.wait_until_it_answers()
    except Failed as why:
        if server.subject.name in OURS:
            raise
        run.skip(server.subject.name, str(why))
        return False
    return True


Found = Mapping[str, Sequence[Measured]]
"""What was measured, by the subject's name; an entry for each round."""

_CALM = 0.05  # of a core
_CALM_SECONDS = 5.0


def in_turn(
    run: Run,
    what: str,
    servers: Sequence[Server],
    rounds: int,
    measure: Callable[[Server], Measured],
    is_full: Callable[[Measured], bool] = lambda measured: False,
) -> dict[str, list[Measured]]:
    """Measure each server in each round, in turn; one that is full in a round is left out of the next."""
    found: dict[str, list[Measured]] = {server.subject.name: [] for server in servers}
    for turn in range(rounds):
        for server in servers:
            before = found[server.subject.name]
            if not any(map(is_full, before)):
                run.say(f"{what}, round {turn + 1} of {rounds}: {server.subject.name}")
                before.append(measure(server))
                if before[-1].failed:
                    run.say(f"{before[-1].failed} streams failed; the first: {before[-1].problem!r}")
                if is_full(before[-1]) and server.subject.name not in OURS:
                    server.close()  # else it would go on with what has piled up, beside whoever comes next
                else:
                    _wait_until_calm(server)
    return found


def _wait_until_calm(server: Server) -> None:
    """Wait until it has noticed that its clients are gone: it would take from who comes next."""
    deadline = time.monotonic() + _CALM_SECONDS
    while time.monotonic() < deadline:
        before = cpu.seconds_of_tree(server.pid)
        time.sleep(0.1)
        if cpu.spent(before, cpu.seconds_of_tree(server.pid)) < _CALM * 0.1:
            return


def middle(values: Iterable[float | None], digits: int = 4) -> float | None:
    """Return the median of those that there are."""
    present = [value for value in values if value is not None]
    return round(median(present), digits) if present else None


def ratio(found: Found, name: str, of: Callable[[Measured], float | None]) -> float | None:
    """Return the median over the rounds of a figure beside that of the naive loop in the same round."""
    pairs = zip(map(of, found[name]), map(of, found.get(NAIVE, ())))
    return middle(mine / theirs for mine, theirs in pairs if mine and theirs)


def circumstances(measured: Sequence[Measured]) -> dict[str, Any]:
    """Return what tells how far the figures can be trusted.

    `busy`: the share of a core that the server took; `others`: what everybody else on the machine took; `headroom`:
    what was left of a core to the load generator and to the upstream, at the least; `valid`: whether that was enough.
    """
    names = [name for name in ("load", "upstream") if all(name in one.cpu for one in measured)]
    left = {name: round(min(1 - one.cpu[name] / one.seconds for one in measured), 2) for name in names}
    return {
        "busy": middle(one.cpu["server"] / one.seconds for one in measured if "server" in one.cpu),
        "processes": max(one.processes.get("server", 0) for one in measured),
        "silent": sum(one.starved for one in measured),
        "unanswered": sum(one.unanswered for one in measured),
        "failed": sum(one.failed for one in measured),
        "problem": next((one.problem for one in measured if one.problem), ""),
        "headroom": left,
        "others": middle(one.others / one.seconds for one in measured),
        "valid": min(left.values()) >= MIN_HEADROOM,
    }


def note(row: Mapping[str, Any], *more: str) -> str:
    """Return what has to be said about a row beside its figures."""
    notes = [words for words in more if words]
    if row["processes"] > 1:
        notes.append(f"{row['processes']} processes")
    if row["silent"]:
        notes.append(f"{row['silent']} streams without a token ({row['unanswered']} had none before)")
    if row["failed"]:
        notes.append(f"{row['failed']} streams failed")
    if not row["valid"]:
        notes.append("INVALID: no headroom")
    return ", ".join(notes)


def headroom_text(left: Mapping[str, float]) -> str:
    """Return what was left to the load generator and to the upstream, in this order."""
    return " / ".join(f"{value * 100:.0f} %" for value in left.values())


SERVER = Column("server", "subject")
CIRCUMSTANCES = (
    Column("core", "busy", percent),
    Column("others", "others", percent),
    Column("headroom", "headroom", headroom_text),
    Column("note", "note"),
)
"""The last columns of a table of servers."""
