"""The servers of a comparison: a few at a time, each driven under the conditions of its cases."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Iterator, Sequence
from urllib.parse import parse_qsl, urlencode

from flaskstream.debug import MAX_LINES_PER_SECOND
from flaskstream.lab.drive import Driven, at_once, drive
from flaskstream.lab.faults import AS_USUAL, Scenario, active_faults
from flaskstream.lab.gunicorn import DebugLine, GunicornProcess
from flaskstream.lab.model.script import Script
from flaskstream.lab.pace import SeenPace, ToldPace
from flaskstream.lab.plan import Plan
from flaskstream.lab.processes import PACKAGE_ROOT, ModelProcess
from flaskstream.lab.runs import ClientRun, ServerRun

SERVERS_AT_ONCE = 4
"""How many servers run side by side. They mostly wait; but starting one takes processor time, and so they are all
started before the first is measured."""

TOKENS_PER_SECOND = 400.0
"""To all clients of all servers that run side by side: far below what would keep one processor busy."""

_QUESTION = {"q": "Say something in five sentences."}


@dataclass(frozen=True)
class Case:
    """One run: a server, and the conditions under which it is driven.

    Attributes:
        server: "fixed", "broken" or the name of a fault.
        scenario: the conditions.
    """

    server: str
    scenario: Scenario = AS_USUAL


@dataclass(frozen=True)
class _Measured:
    """What one run gave: what the clients saw, the debug lines, and what the model said after they had gone."""

    driven: tuple[Driven, ...]
    lines: tuple[DebugLine, ...]
    said_after: int | None


class Bench:
    """Measures cases.

    Args:
        plan: how many clients, tokens and so on.
        model: the embedded model; `None`: the plan's upstream.
        progress: called with a few words about what is being done.
    """

    def __init__(self, plan: Plan, model: ModelProcess | None, progress: Callable[[str], None]) -> None:
        self._plan = plan
        self._model = model
        self._progress = progress
        self._numbers = itertools.count()

    def run_all(self, cases: Sequence[Case]) -> dict[Case, ServerRun]:
        """Measure them all. The fixed mode under the usual conditions must be among them.

        Raises:
            ProcessFailed: a server did not start.
        """
        servers = list(dict.fromkeys(case.server for case in cases))
        measured: dict[Case, _Measured] = {}
        for names in _batches(servers, self._servers_at_once()):
            measured.update(self._run_batch(names, cases))
        fixed = measured[Case("fixed")]
        seen = SeenPace.of([driven.pieces for driven in fixed.driven])
        return {case: self._server_run(case, result, seen) for case, result in measured.items()}

    @property
    def _tokens_per_second(self) -> float:
        return self._plan.clients * 1000 / self._plan.interval_ms

    def _servers_at_once(self) -> int:
        return min(max(int(TOKENS_PER_SECOND / self._tokens_per_second), 1), SERVERS_AT_ONCE)

    def _run_batch(self, names: Sequence[str], cases: Sequence[Case]) -> dict[Case, _Measured]:
        self._progress(f"starting gunicorn: {', '.join(names)}")
        with ExitStack() as stack:
            servers = [stack.enter_context(self._start(name)) for name in names]
            for server in servers:
                server.wait_until_it_answers()
            self._progress(f"reading from gunicorn: {', '.join(names)}")
            theirs = [[case for case in cases if case.server == name] for name in names]
            results = at_once([partial(self._run_server, *pair) for pair in zip(servers, theirs)])
        return {case: measured for result in results for case, measured in result.items()}

    def _run_server(self, server: GunicornProcess, cases: Sequence[Case]) -> dict[Case, _Measured]:
        driven = {case: self._drive(server, case) for case in dict.fromkeys(cases)}
        server.close()  # some debug lines come out only now
        return {case: _Measured(seen, server.debug_lines(), after) for case, (seen, after) in driven.items()}

    def _start(self, name: str) -> GunicornProcess:
        upstream = self._model.url if self._model else str(self._plan.upstream)
        return GunicornProcess(settings_of(self._plan, upstream, name), folder=PACKAGE_ROOT)

    def _drive(self, server: GunicornProcess, case: Case) -> tuple[tuple[Driven, ...], int | None]:
        url, clients = f"{server.url}/stream/chat", case.scenario.clients or self._plan.clients
        if self._model is None:
            return drive(url, _QUESTION, clients), None
        # The name tells the run's requests from those of the others in the log of the model.
        script = replace(self._script_of(case), name=f"t{next(self._numbers)}")
        driven = drive(url, {**_QUESTION, "model": script.model}, clients, case.scenario.leave_after)
        return driven, self._said_after_leaving(driven, script) if case.scenario.leave_after else None

    def _script_of(self, case: Case) -> Script:
        wanted = {"tokens": str(self._plan.tokens), "interval_ms": str(self._plan.interval_ms)}
        script = Script.parse("tick?" + urlencode({**wanted, **dict(parse_qsl(case.scenario.script))}))
        return replace(script, tokens=max(script.tokens, round(case.scenario.seconds * 1000 / script.interval_ms)))

    def _said_after_leaving(self, driven: Sequence[Driven], script: Script) -> int:
        """Wait until the model has noticed that nobody listens, or has said all; return what it said to nobody."""
        deadline = time.monotonic() + script.seconds * 2 + 1
        log = self._requests_for(script)
        while any(request["ended"] is None for request in log) and time.monotonic() < deadline:
            time.sleep(script.interval_ms / 1000)
            log = self._requests_for(script)
        return sum(int(request["sent_tokens"]) for request in log) - sum(len(one.pieces) for one in driven)

    def _requests_for(self, script: Script) -> list[dict[str, Any]]:
        assert self._model is not None
        return [request for request in self._model.requests() if request["model"] == script.model]

    def _server_run(self, case: Case, measured: _Measured, seen: SeenPace) -> ServerRun:
        script, driven = self._script_of(case), measured.driven
        pace = seen if self._model is None else ToldPace(script.token_texts, script.interval_ms / 1000)
        lags = _lags(measured)
        return ServerRun(
            name=case.server,
            faults=faults_of(case.server),
            tokens=pace.count([one.pieces for one in driven if one.ended == "done"]),
            interval=pace.interval,
            clients=tuple(_client_run(one, pace) for one in driven),
            debug_lags=lags,
            debug_missing=self._missing(driven, lags),
            upstream_tokens_after_leaving=measured.said_after,
        )

    def _missing(self, driven: Sequence[Driven], lags: Sequence[float]) -> int:
        if self._tokens_per_second > MAX_LINES_PER_SECOND:
            return 0  # lines are left out on purpose
        return max(sum(len(one.pieces) for one in driven) - len(lags), 0)


def settings_of(plan: Plan, upstream: str, server: str) -> dict[str, str]:
    """Return the settings of a server: of "fixed", of "broken" or of one with a fault of this name alone."""
    settings = {"upstream": upstream, "debug_print": "1"}
    if plan.api_key:
        settings["api_key"] = plan.api_key
    if plan.model:
        settings["model"] = plan.model
    if server == "broken":
        settings["mode"] = "broken"
    elif server != "fixed":
        settings["faults"] = server
    return settings


def faults_of(server: str) -> tuple[str, ...]:
    """Return the names of the faults that are switched on in a server of this name."""
    if server == "fixed":
        return ()
    return tuple(fault.name for fault in active_faults(() if server == "broken" else (server,)))


def _lags(measured: _Measured) -> tuple[float, ...]:
    """Return how late each debug line of this run came out; its server had others before or after."""
    began, gone = min(one.began_at for one in measured.driven), max(one.gone_at for one in measured.driven)
    return tuple(line.came_at - line.printed_at for line in measured.lines if began <= line.printed_at <= gone)


def _client_run(driven: Driven, pace: SeenPace | ToldPace) -> ClientRun:
    return ClientRun(
        status=driven.status,
        sent_at=driven.sent_at,
        arrivals=pace.arrivals(driven.pieces),
        ended=driven.ended,
        ended_at=driven.ended_at,
        code=driven.code,
        headers=driven.headers,
    )


def _batches(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
