"""The decoders of npm. One process of Node reads everything with all of them: see tests/node/decoders.mjs."""

from __future__ import annotations

import base64
import functools
import json
import pathlib
import shutil
import subprocess
from typing import Any, Callable, Mapping, Sequence

from decoders.reading import Case, Readings, answered

FOLDER = pathlib.Path(__file__).parent.parent / "node"
MODULES = ("eventsource_parser", "fetch_event_source")
PATIENCE = 60  # seconds that Node does not need, unless something is wrong


def missing() -> str | None:
    if not shutil.which("node"):
        return "there is no node here"
    if not (FOLDER / "node_modules" / "eventsource-parser").is_dir():
        return "the packages of tests/node are not installed here (`make test` does it)"
    return None


def reader(module: str) -> Callable[[Sequence[Case]], Readings]:
    """Return what reads every case with one of the modules."""

    def read_all(cases: Sequence[Case]) -> Readings:
        question = {"decoders": MODULES, "streams": [_stream(case) for case in cases]}
        return answered(cases, _answers(json.dumps(question))[module])

    return read_all


def _stream(case: Case) -> dict[str, Any]:
    return {"bytes": base64.b64encode(case.stream).decode(), "cuts": [list(cuts) for cuts in case.cuttings.values()]}


@functools.lru_cache(maxsize=1)
def _answers(question: str) -> Mapping[str, Any]:
    done = subprocess.run(
        ["node", "decoders.mjs"], cwd=FOLDER, input=question, capture_output=True, encoding="utf-8", timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    answers: Mapping[str, Any] = json.loads(done.stdout)
    return answers
