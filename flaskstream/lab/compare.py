"""The main job: the right way and the wrong way side by side, and each mistake alone. Measures; it judges nothing."""

from __future__ import annotations

import os
import platform
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Callable, Iterator, Sequence
from urllib.parse import parse_qsl, urlencode

from flaskstream.errors import InvalidSetting
from flaskstream.lab.drive import Driven, drive
from flaskstream.lab.faults import AS_USUAL, FAULTS, NO_FAULT, Fault, Scenario, active_faults
from flaskstream.lab.gunicorn import DebugLine, GunicornProcess
from flaskstream.lab.processes import ModelProcess
from flaskstream.lab.results import Comparison, FaultLine
from flaskstream.lab.runs import ServerRun
from flaskstream.lab.script import Script

SERVERS_AT_ONCE = 4
"""How many servers are started at a time: starting takes processor time, which a measurement must not share."""

MAX_CLIENTS = 64
MAX_STREAM_SECONDS = 30.0
"""Bounds: it is a comparison, not a load test."""


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Attributes:
        clients: how many at once.
        tokens: that the model says to each.
        interval_ms: milliseconds between them.
        faults: names of those that are switched on alone.
        upstream: base URL of a real API in place of the embedded model; it says what it likes, as fast as it likes.
        api_key: for that API.
        model: for that API.

    Raises:
        InvalidSetting: a number out of its range, or no such fault.
    """

    clients: int = 4
    tokens: int = 24
    interval_ms: int = 50
    faults: tuple[str, ...] = tuple(FAULTS)
    upstream: str | None = None
    api_key: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.clients <= MAX_CLIENTS:
            raise InvalidSetting(f"clients: expected 1 to {MAX_CLIENTS}, got {self.clients}")
        if self.tokens < 4:
            raise InvalidSetting(f"tokens: expected 4 or more, or nothing can be told from them, got {self.tokens}")
        if self.interval_ms < 5:
            raise InvalidSetting(f"interval_ms: expected 5 or more, or noise is all there is, got {self.interval_ms}")
        if self.tokens * self.interval_ms > MAX_STREAM_SECONDS * 1000:
            raise InvalidSetting(
                f"tokens and interval_ms: expected a stream of at most {MAX_STREAM_SECONDS:g} s,"
                f" got {self.tokens * self.interval_ms / 1000:g} s"
            )
        active_faults(self.faults)

    @property
    def chosen_faults(self) -> tuple[Fault, ...]:
        """The faults to show: a real API cannot be told to cut its answer, or to frame it in another way."""
        faults = tuple(FAULTS[name] for name in self.faults if name != NO_FAULT)
        return tuple(f for f in faults if f.scenario == AS_USUAL) if self.upstream else faults


def compare(plan: Plan, progress: Callable[[str], None] = lambda text: None) -> Comparison:
    """Measure it all and return what was seen. Everything that is started here has ended when it returns or raises.

    Args:
        plan: what to compare.
        progress: called with a few words about what is being done.

    Raises:
        ProcessFailed: a server did not start.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        model = None if plan.upstream else stack.enter_context(ModelProcess())
        bench = _Bench(plan, model, stack, progress)
        runs = bench.run_all()
    fixed, broken = runs[_Case("fixed")], runs[_Case("broken")]
    lines = tuple(_fault_line(fault, runs) for fault in plan.chosen_faults)
    return Comparison(fixed, broken, lines, machine(), time.monotonic() - began)


@dataclass(frozen=True)
class _Case:
    """One run: a server, and the conditions under which it is driven."""

    server: str  # "fixed", "broken" or a fault's name
    scenario: Scenario = AS_USUAL


def _fault_line(fault: Fault, runs: dict[_Case, ServerRun]) -> FaultLine:
    faulty, control = runs[_Case(fault.name, fault.scenario)], runs[_Case("fixed", fault.scenario)]
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


class _Bench:
    """The servers of one comparison, and how they are driven."""

    def __init__(
        self, plan: Plan, model: ModelProcess | None, stack: ExitStack, progress: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._model = model
        self._stack = stack
        self._progress = progress

    def run_all(self) -> dict[_Case, ServerRun]:
        cases = [_Case("fixed"), _Case("broken")]
        for fault in self._plan.chosen_faults:
            cases += [_Case("fixed", fault.scenario), _Case(fault.name, fault.scenario)]
        servers = list(dict.fromkeys(case.server for case in cases))
        runs: dict[_Case, ServerRun] = {}
        for batch in _batches(servers, SERVERS_AT_ONCE):
            runs.update(self._run_batch(batch, list(dict.fromkeys(cases))))
        return runs

    def _run_batch(self, names: Sequence[str], cases: Sequence[_Case]) -> Iterator[tuple[_Case, ServerRun]]:
        self._progress(f"starting gunicorn: {', '.join(names)}")
        servers = {name: self._stack.enter_context(GunicornProcess(self._settings_of(name))) for name in names}
        for server in servers.values():
            server.wait_until_it_answers()
        seen: dict[_Case, tuple[tuple[Driven, ...], int | None]] = {}
        for name, server in servers.items():
            for case in (case for case in cases if case.server == name):
                self._progress(f"{name}: {self._clients_of(case)} clients read")
                seen[case] = self._drive(case, server)
            server.terminate()  # it ends beside the next one's run, which costs next to nothing
        for server in servers.values():
            server.close()
        for case, (driven, after) in seen.items():
            yield case, self._server_run(case, driven, servers[case.server].debug_lines(), after)

    def _settings_of(self, name: str) -> dict[str, str]:
        settings = {"upstream": self._model.url if self._model else str(self._plan.upstream), "debug_print": "1"}
        if self._plan.api_key:
            settings["api_key"] = self._plan.api_key
        if self._plan.model:
            settings["model"] = self._plan.model
        if name == "broken":
            settings["mode"] = "broken"
        elif name != "fixed":
            settings["faults"] = name
        return settings

    def _clients_of(self, case: _Case) -> int:
        return case.scenario.clients or self._plan.clients

    def _script_of(self, case: _Case) -> Script:
        wanted = {"tokens": str(self._plan.tokens), "interval_ms": str(self._plan.interval_ms)}
        script = Script.parse("tick?" + urlencode({**wanted, **dict(parse_qsl(case.scenario.script))}))
        longest = round(case.scenario.seconds * 1000 / script.interval_ms)
        return replace(script, tokens=max(script.tokens, longest))

    def _drive(self, case: _Case, server: GunicornProcess) -> tuple[tuple[Driven, ...], int | None]:
        url, clients, leave_after = f"{server.url}/stream/chat", self._clients_of(case), case.scenario.leave_after
        if self._model is None:
            return drive(url, {"q": "Say something in five sentences."}, clients), None
        script = self._script_of(case)
        self._model.forget()
        driven = drive(url, {"q": "hello", "model": script.model}, clients, script.token_texts, leave_after)
        return driven, self._tokens_after_leaving(driven, script) if leave_after else None

    def _tokens_after_leaving(self, driven: Sequence[Driven], script: Script) -> int:
        """Wait until the model has noticed that nobody listens, or has said all; return what it said to nobody."""
        assert self._model is not None
        deadline = time.monotonic() + script.seconds * 2 + 1
        log = self._model.requests()
        while any(request["ended"] is None for request in log) and time.monotonic() < deadline:
            time.sleep(script.interval_ms / 1000)
            log = self._model.requests()
        said = sum(int(request["sent_tokens"]) for request in log)
        return said - sum(len(one.run.arrivals) for one in driven)

    def _server_run(
        self, case: _Case, driven: Sequence[Driven], lines: Sequence[DebugLine], after: int | None
    ) -> ServerRun:
        script = self._script_of(case)
        clients = tuple(one.run for one in driven)
        began, ended = min(one.began_at for one in driven), max(one.ended_at for one in driven)
        lags = tuple(line.came_at - line.printed_at for line in lines if began <= line.printed_at <= ended)
        events = sum(one.events for one in driven)
        tokens, interval = script.tokens, script.interval_ms / 1000
        if self._model is None:  # a real API: what the client that got the most got, at its pace
            tokens = max(len(client.arrivals) for client in clients)
            interval = max((client.ended_at - (client.first_token or 0)) / max(tokens, 1) for client in clients)
        return ServerRun(
            name=case.server,
            faults=() if case.server == "fixed" else tuple(fault.name for fault in _faults_of(case.server)),
            tokens=tokens,
            interval=interval,
            clients=clients,
            debug_lags=lags,
            debug_missing=max(events - len(lags), 0),
            upstream_tokens_after_leaving=after,
        )


def _faults_of(server: str) -> tuple[Fault, ...]:
    return active_faults(() if server == "broken" else (server,))


def _batches(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


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
