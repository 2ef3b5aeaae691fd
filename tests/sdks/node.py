"""The packages of npm: one process of Node for each, which is asked by lines of JSON (tests/node/sdk_questions.mjs)."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pathlib
import shutil
import subprocess
import threading
from concurrent.futures import Future
from typing import Any, Callable

from sdks.heard import API_KEY, MAX_TOKENS, MESSAGES, Heard, Question

FOLDER = pathlib.Path(__file__).parent.parent / "node"
PATIENCE = 60  # seconds that no answer needs, unless something is wrong


def missing(package: str) -> str | None:
    """Tell what is not there without which the package cannot be asked; `None`: nothing."""
    if not shutil.which("node"):
        return "there is no node here"
    if not (FOLDER / "node_modules" / package).is_dir():
        return f"{package} of tests/node is not installed here (`make test` does it)"
    return None


class NodeProcess:
    """A program in `tests/node` that answers questions, from construction until `close()`."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            ["node", program], cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self._numbers = itertools.count()
        self._open: dict[int, Future[Any]] = {}
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def ask(self, way: str, question: Question) -> Heard:
        number, future = next(self._numbers), Future()  # type: ignore[var-annotated]
        self._open[number] = future
        told = {"key": API_KEY, "messages": MESSAGES, "max_tokens": MAX_TOKENS, **dataclasses.asdict(question)}
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"number": number, "way": way, **told}) + "\n")
        self._process.stdin.flush()
        return _heard(future.result(PATIENCE))

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            answer = json.loads(line)
            self._open.pop(answer.pop("number")).set_result(answer)
        for future in self._open.values():
            future.set_exception(EOFError("node ended without an answer: see its standard error"))

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._reading.join()
            self._process.stdout.close()


def _heard(answer: dict[str, Any]) -> Heard:
    return Heard(**{**answer, "calls": {int(n): call for n, call in answer["calls"].items()}})


@functools.lru_cache(maxsize=None)
def process(program: str) -> NodeProcess:
    """Return the process of a program: started when it is first asked for, ended by `close_all`."""
    _started.append(NodeProcess(program))
    return _started[-1]


_started: list[NodeProcess] = []


def close_all() -> None:
    while _started:
        _started.pop().close()
    process.cache_clear()


def asker(program: str, way: str) -> Callable[[Question], Heard]:
    """Return what asks with one of the programs, in one of its ways of streaming."""

    def ask(question: Question) -> Heard:
        return process(program).ask(way if question.stream else "whole", question)

    return ask
