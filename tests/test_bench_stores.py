"""The bench of what stores cost runs, and says what it measured and where."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from flaskstream.lab.processes import PACKAGE_ROOT

SMALL = ("--streams=2", "--tokens=40", "--interval=5", "--rounds=1", "--replay=600")


def bench(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench.stores", *SMALL, *arguments]
    return subprocess.run(command, cwd=PACKAGE_ROOT, stdout=subprocess.PIPE, check=True, timeout=120).stdout.decode()


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("bench") / "figures.json"
    told = bench("--json", str(file), "--store", "memory", "--store", "sqlite")
    assert "| --" in told and "processors" in told
    return json.loads(file.read_text())


def test_each_store_is_measured_beside_none(said: Any) -> None:
    assert [row["store"] for row in said["rows"]] == ["none", "memory", "sqlite"]
    for row in said["rows"]:
        assert row["tokens"] == 80
        assert row["cpu_us"] > 0 and 0 < row["p50_ms"] <= row["p99_ms"]
    assert (said["rows"][0]["ratio"], said["rows"][0]["added_p50_ms"]) == (1, 0)


def test_what_a_store_has_is_read_again(said: Any) -> None:
    none, *stores = said["rows"]
    assert none["replay_ms"] is None
    for row in stores:
        assert row["replayed"] == 600 and row["replay_ms"] > 0 and row["replay_per_second"] > 0


def test_the_figures_say_where_they_come_from(said: Any) -> None:
    assert said["schema_version"] == 1
    assert all(
        said["machine"][key] for key in ("name", "processors", "system", "python", "gunicorn", "gevent", "sqlite")
    )


def test_people_get_a_table(redis_server: Any) -> None:  # asked for because without a Redis it skips
    lines = bench("--store", "redis").splitlines()
    assert [line.split()[1] for line in lines if line.startswith("| ")] == ["store", "-----", "none", "redis"]
