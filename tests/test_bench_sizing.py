"""The sizing can be checked by hand; the simulation loses no stream, and computes what a queue of tokens shows."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Sequence

import pytest
from click.testing import CliRunner

from bench import simulation, sizing
from bench.capacity import PORTS, Site, size
from bench.fleet import BALANCERS, Machine, Terms
from bench.fleet_events import Simulation, seeded
from bench.queueing import Backlog, Stay, exact_waits, mean_wait, wait_exceeded_by
from bench.queueing_check import check
from flaskstream.lab.processes import PACKAGE_ROOT

SMALL = Terms(streams=300, machines=3, workers=2, seconds=8, steady=10, settle=15, graceful=8, boot=1)


def simulated(terms: Terms, seed: int = 1, **how: Any) -> Simulation:
    with seeded(seed):
        return Simulation(terms).run(**how)


def said(command: Any, *arguments: str) -> Any:
    return CliRunner().invoke(command, arguments)


def test_a_worker_carries_what_fits_into_its_share_of_a_core() -> None:
    found = size(Site(streams=10_000, rate=20, cost_us=35, start_us=0, headroom=0.7, cores=4))
    assert found.streams_per_worker == 1000  # 700,000 us, of which each stream takes 20 times 35
    assert found.workers_needed == 10
    assert (found.workers_per_machine, found.machines) == (4, 4)  # three, and the one that may be missing
    assert (found.streams_per_machine, found.streams_per_machine_at_worst) == (2500, 3334)


def test_the_beginning_of_a_stream_counts_too() -> None:
    found = size(Site(streams=1, rate=20, cost_us=30, start_us=2000, seconds=20))
    assert found.streams_per_worker == 1000  # 600 us a second for its tokens, and 100 for its beginning


def test_a_worker_takes_more_connections_than_streams_and_has_descriptors_for_all() -> None:
    found = size(Site(streams=10_000))
    assert found.streams_per_worker < found.max_streams < found.worker_connections
    assert found.descriptors > 2 * found.worker_connections


def test_a_machine_with_little_memory_has_fewer_workers() -> None:
    found = size(Site(streams=1000, cost_us=35, start_us=0, memory_kb=1000, worker_mb=0, memory_gb=4))
    assert found.workers_per_machine == 3  # three quarters of it, and 1 GB for each


def test_ports_run_out_before_the_cores_where_tokens_are_slow() -> None:
    found = size(Site(streams=60_000, rate=2, seconds=600))
    assert found.ports == 60_000 > 2 * PORTS
    assert found.upstream_addresses == math.ceil(66_000 / PORTS)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (("--streams", "0"), "--streams: expected a number above 0, got 0"),
        (("--streams", "5", "--rate", "nan"), "--rate: expected a number above 0, got nan"),
        (("--streams", "5", "--cost-us", "-1"), "--cost-us: expected a number above 0, got -1.0"),
        (("--streams", "5", "--headroom", "1.5"), "--headroom: expected a share of a core, up to 1, got 1.5"),
        (("--streams", "5", "--rate", "1e6"), "expected a stream that a worker can carry"),
        (("--streams", "5", "--memory-gb", "0.01"), "--memory-gb: expected room for a worker"),
        (("--streams", "many"), "is not a valid integer"),
        ((), "--streams"),
    ],
)
def test_what_cannot_be_is_refused_in_words(wrong: Sequence[str], words: str) -> None:
    for command in (sizing.main, simulation.main):
        result = said(command, *wrong)
        assert result.exit_code == 2
        assert words in result.output


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "size.json"
    command = [sys.executable, "-m", "bench.sizing", "--streams", "10000", "--json", str(file)]
    text = subprocess.run(command, cwd=PACKAGE_ROOT, stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
    result = json.loads(file.read_text())
    assert result["schema_version"] == 1
    assert f"{result['size']['worker_connections']:,}" in text
    assert "LimitNOFILE" in text and "Redis" in text


def test_the_page_has_what_the_command_says() -> None:
    page = (Path(PACKAGE_ROOT) / "docs" / "sizing.md").read_text()
    table = page.partition("<!-- sizing -->")[2].partition("<!-- /sizing -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    for column, streams in enumerate((1000, 10_000, 100_000), 1):
        site = Site(streams=streams)
        assert [(line[0], line[column]) for line in lines] == list(sizing.rows(site, size(site)))
    for one in ("--cost-us", "--redis-us", "--start-us", "--memory-kb", "--worker-mb"):
        default = getattr(Site, one[2:].replace("-", "_"))
        assert f"`{one} {default:g}`" in page


@pytest.mark.parametrize("store", [False, True], ids=["no_store", "store"])
@pytest.mark.parametrize("balancer", list(BALANCERS))
def test_every_stream_that_begins_ends_once(balancer: str, store: bool) -> None:
    done = simulated(replace(SMALL, balancer=balancer, store=store, limit=80))
    assert done.counts["begun"] == done.counts["ended"] > SMALL.streams
    assert all(storm.out == storm.back for storm in done.storms)
    assert done.counts["out"] == sum(storm.out for storm in done.storms) > 0
    for machine in done.machines:
        assert machine.streams == 0
        assert not any(worker.streams or worker.rate for worker in machine.workers)


def test_the_same_seed_gives_the_same_run_and_leaves_chance_as_it_was() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    first, again, other = (simulated(SMALL, seed).looks for seed in (1, 1, 2))
    assert first == again != other
    assert random.random() == expected


def test_as_many_streams_are_open_as_was_asked_for() -> None:
    looks = simulated(replace(SMALL, streams=3000), deploys=False, loses=False).looks
    assert sum(look.streams for look in looks) / len(looks) == pytest.approx(3000, rel=0.06)


def test_who_was_driven_out_is_back_as_soon_as_the_retry_says() -> None:
    deploys = [storm for storm in simulated(SMALL).storms if storm.kind == "deploy"]
    (loss,) = (storm for storm in simulated(SMALL, deploys=False).storms if storm.kind == "loss")
    assert len(deploys) == SMALL.machines
    for storm in deploys:
        assert 4.5 < storm.last_back - storm.began <= 9  # the last of those told once to three times `retry`
    assert 3 < loss.last_back - loss.began <= 3 * 4.5  # once to one and a half times; and again, who meets the lost one


def test_with_a_store_only_answers_that_cannot_be_finished_are_asked_for_again() -> None:
    without, with_ = (
        simulated(replace(SMALL, store=store, graceful=30), loses=False).counts["asked_again"]
        for store in (False, True)
    )
    assert 0 < with_ < 0.5 * without


def test_a_balancer_that_looks_spreads_streams_more_evenly() -> None:
    spread = {}
    for balancer in BALANCERS:
        looks = simulated(replace(SMALL, streams=2000, balancer=balancer), deploys=False, loses=False).looks
        spread[balancer] = sum(look.by_machine for look in looks) / len(looks)
    assert spread["least"] < spread["two"] < spread["round-robin"]
    assert spread["least"] < 1.005


def test_round_robin_takes_each_machine_in_turn() -> None:
    machines = [Machine(1) for _ in range(3)]
    choose = BALANCERS["round-robin"]()
    assert [choose(machines) for _ in range(6)] == machines * 2


def test_a_full_worker_refuses_and_its_client_comes_back() -> None:
    done = simulated(replace(SMALL, limit=30), deploys=False, loses=False)  # 180 places for 300 streams
    assert done.counts["refused"] > 100
    assert max(look.streams for look in done.looks[-10:]) <= 300
    assert done.counts["begun"] == done.counts["ended"]


def test_the_queue_is_that_of_the_textbook() -> None:
    tokens = [(700.0, 0.001)]
    assert mean_wait(tokens) == pytest.approx(0.7 * 0.001 / (2 * 0.3))  # M/D/1
    assert mean_wait([(1000.0, 0.001)]) == math.inf
    assert wait_exceeded_by(0.5, [(300.0, 0.001)], 1.0) == 0  # seven of ten do not wait
    assert wait_exceeded_by(0.01, [(990.0, 0.001)], 0.02) == pytest.approx(0.02, rel=0.01)  # and not for ever


def test_what_a_worker_cannot_do_waits_for_the_next_second() -> None:
    backlog = Backlog()
    full = backlog.step([(1500.0, 0.001)], 1.0)
    assert full.utilisation == pytest.approx(1.5)
    assert backlog.seconds == pytest.approx(0.5)
    assert 0.25 <= full.mean <= 0.29  # half of what heaps up, and a little by chance
    backlog.step([(500.0, 0.001)], 1.0)
    assert backlog.seconds == 0


def test_a_token_waits_for_those_before_it() -> None:
    with seeded(1):
        waits = [wait for _, wait in exact_waits([Stay(0, 10, 1.0)] * 2, cost=2.0, start_cost=0, even=True)]
    assert len(waits) == 20
    assert waits[-1] > 15  # forty seconds of work in ten


@pytest.mark.parametrize("utilisation", [0.3, 0.5, 0.7])
def test_what_is_computed_is_what_300_streams_show_token_by_token(utilisation: float) -> None:
    """The tolerance that docs/sizing.md states: a tenth for the mean up to 70 % of a core, a quarter for the p99."""
    found = check(utilisation, seed=1, seconds=30)
    assert found.computed == pytest.approx(found.exact, rel=0.1)
    assert found.computed_p99 == pytest.approx(found.exact_p99, rel=0.25)
    assert found.even < 1.1 * found.computed  # tokens at even distances wait no longer


def test_the_simulation_prints_a_row_for_each_phase(tmp_path: Path) -> None:
    file = tmp_path / "simulation.json"
    result = said(simulation.main, "--streams", "200", "--seconds", "10", "--balancer", "least", "--json", str(file))
    assert result.exit_code == 0, result.output
    rows = [line.split("|")[2].strip() for line in result.output.splitlines() if line.startswith("| least")]
    assert rows == ["quiet", "deploy", "after it", "loss"]
    written = json.loads(file.read_text())
    assert written["schema_version"] == 1
    assert [phase["name"] for phase in written["runs"]["least"]["phases"]] == rows
    assert written["runs"]["least"]["counts"]["begun"] == written["runs"]["least"]["counts"]["ended"]
