"""The bench of how soon an upstream is left runs, and says what it measured and where."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from flaskstream.lab.processes import PACKAGE_ROOT


def bench(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench.leaving", "--streams", "2", *arguments]
    return subprocess.run(command, cwd=PACKAGE_ROOT, stdout=subprocess.PIPE, check=True, timeout=120).stdout.decode()


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("bench") / "figures.json"
    told = bench("--json", str(file))
    assert "| --" in told and "processors" in told
    return json.loads(file.read_text())


def test_each_state_is_left_in_each_way_under_each_worker(said: Any) -> None:
    states = ("before_head", "after_head", "mid_stream", "flooding")
    rows = [(row["server"], row["state"], row["by"]) for row in said["rows"]]
    expected = [(server, state, by) for server in ("gevent", "gthread") for state in states for by in ("fin", "reset")]
    assert rows == expected


def test_each_row_has_measured_every_stream(said: Any) -> None:
    for row in said["rows"]:
        assert (row["streams"], row["never"]) == (2, 0)
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]


def test_the_figures_say_where_they_come_from(said: Any) -> None:
    assert said["schema_version"] == 1
    assert all(said["machine"][key] for key in ("name", "processors", "system", "python", "gunicorn", "gevent"))


def test_people_get_a_table() -> None:
    lines = bench("--server", "gevent").splitlines()
    assert [line for line in lines if line.startswith("| gevent") and " ms" in line]
