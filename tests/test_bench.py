"""The parts of the bench: what they count is what was sent, and what they print is what was counted."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from contextlib import closing
from typing import Any, Iterator, Mapping
from urllib.request import Request, urlopen

import pytest

from bench import cpu
from bench.budget import Line, budget
from bench.case import Run
from bench.cases import CASES
from bench.client import Chunks, Stream
from bench.drive import body, load
from bench.paced_upstream import Wanted, plain_event
from bench.processes import Program, upstream
from bench.running import running
from bench.subjects import KIT, KIT_CHAT, NAIVE, NODE, STARLETTE
from bench.table import replaced, report
from flaskstream.lab.processes import PACKAGE_ROOT

INTERVAL_MS = 120
TOKENS = 6
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def paced() -> Iterator[tuple[str, int]]:
    with upstream() as running:
        yield running


def test_the_load_generator_counts_what_the_upstream_sends(paced: tuple[str, int]) -> None:
    url, pid = paced
    straight = [
        f"--body={body(interval_ms=INTERVAL_MS)}",
        "--streams=5",
        "--ramp=0.2",
        "--warm-up=0.1",
        "--seconds=1.2",
    ]
    found = load(f"{url}/chat/completions", {"upstream": pid}, straight)
    due = 5 * found.seconds * 1000 / INTERVAL_MS
    assert (found.streams, found.starved, found.failed, found.finished) == (5, 0, 0, 0)
    assert due * 0.5 < found.tokens < due * 1.5
    assert found.p50_ms and found.p99_ms and found.max_ms
    assert 0 < found.p50_ms <= found.p99_ms <= found.max_ms
    assert 0 < found.reads <= found.tokens
    assert all(0 < found.cpu[name] < found.seconds for name in ("upstream", "load"))


def test_an_answer_of_the_upstream_is_whole_and_tells_when_each_token_was_sent(paced: tuple[str, int]) -> None:
    url, _ = paced
    before, began = _sent(url), time.monotonic_ns()
    asked = Request(f"{url}/chat/completions", body(interval_ms=20, tokens=TOKENS, size=300).encode())
    with urlopen(asked) as answer:
        *events, done, rest = answer.read().split(b"\n\n")
    ended = time.monotonic_ns()
    assert (len(events), done, rest, _sent(url) - before) == (TOKENS, b"data: [DONE]", b"", TOKENS)
    assert {len(event) for event in events} == {300 - len("\n\n")}
    texts = [json.loads(event[len("data: ") :])["choices"][0]["delta"]["content"] for event in events]
    times = [int(text.partition("@")[2].rstrip(".")) for text in texts]
    assert times == sorted(times) and began < times[0] and times[-1] < ended
    assert times[-1] - began >= (TOKENS - 1) * 20e6


def _sent(url: str) -> int:
    with urlopen(url) as answer:
        return int(json.loads(answer.read())["sent"])


def test_an_answer_that_is_an_error_is_told_and_not_counted() -> None:
    with Program([sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"], reads=True) as server:
        port = server.first_line().split(" port ")[1].split()[0]
        found = load(f"http://127.0.0.1:{port}/nothing", {}, ["--streams=2", "--ramp=0.1", "--seconds=0.1"])
    assert (found.failed, found.tokens) == (2, 0)
    assert "404" in found.problem


def test_a_chunked_body_is_read_whatever_its_cuts() -> None:
    sent = b"5\r\nhello\r\n10;name=value\r\n, wonderful worl\r\n1\r\nd\r\n0\r\n\r\n"
    for size in range(1, len(sent) + 1):
        chunks = Chunks(is_chunked=True)
        read = b"".join(chunks.feed(sent[at : at + size]) for at in range(0, len(sent), size))
        assert (read, chunks.is_over) == (b"hello, wonderful world", True), size


def test_a_token_is_found_whatever_the_cuts() -> None:
    events = [plain_event(220) for _ in range(2)]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    sent = head + b"".join(events)
    for size in (*range(1, 300), len(sent)):
        stream = Stream(("127.0.0.1", 9))
        with closing(stream.socket):
            found = [stamp for at in range(0, len(sent), size) for stamp in stream.stamps(sent[at : at + size])]
        assert [stamp in event for stamp, event in zip(found, events)] == [True, True], size


def test_the_upstream_is_told_what_is_wanted_by_the_models_name() -> None:
    wanted = Wanted.parse(json.loads(body(interval_ms=5, tokens=10, at_once=1))["model"])
    assert wanted == Wanted(interval_ms=5, tokens=10, at_once=1)
    assert len(plain_event(220)) == 220


def test_the_processor_time_of_a_process_and_of_its_children_is_read() -> None:
    spin = "import os, time\nos.fork()\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
    spin += "print('spun')\ntime.sleep(60)"
    with Program([sys.executable, "-u", "-c", spin], reads=True) as program:
        program.first_line()
        deadline = time.monotonic() + 30
        while min((after := cpu.seconds_of_tree(program.pid)).values()) < 0.3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(after) == 2
        assert all(value >= 0.3 for value in after.values())
        assert ticks_of(program.pid) / TICKS_PER_SECOND == pytest.approx(cpu.seconds(program.pid), abs=0.1)
        assert cpu.spent({program.pid: after[program.pid]}, after) == pytest.approx(
            sum(after.values()) - after[program.pid]
        )
        assert 1_000_000 < cpu.memory(program.pid)["pss"] <= cpu.memory(program.pid)["rss"]
    assert cpu.seconds_of_tree(program.pid) == {program.pid: 0.0}


def ticks_of(pid: int) -> int:
    """Return the user and system time in `/proc`; its 10 ms are why the bench reads it elsewhere."""
    with open(f"/proc/{pid}/stat") as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))


def test_a_peer_that_is_not_here_is_skipped_aloud(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    run = Run(say=said.append)
    with running(run, (NODE,), "http://127.0.0.1:9/v1") as servers:
        assert servers == []
    assert run.skipped == {NODE: "there is no node here"}
    assert said == ["SKIPPED: Node: there is no node here"]


def relayed(subject: str, streams: int, *costs: float, p99_ms: float = 1.0, valid: bool = True) -> Mapping[str, Any]:
    return {
        "streams": streams,
        "subject": subject,
        "cpu_us": costs[0],
        "cpu_us_rounds": costs,
        "p99_ms": p99_ms,
        "headroom": {"load": 0.9, "upstream": 0.8},
        "valid": valid,
        "note": "",
    }


def test_the_budget_is_judged_round_by_round() -> None:
    rows = [
        relayed(NAIVE, 300, 40, 80, 40),
        relayed(KIT, 300, 30, 60, 300),
        relayed(NODE, 300, 20),
        relayed(STARLETTE, 300, 100),
    ]
    lines = {line.what: line for line in budget({"relay": rows})}
    naive = lines[f"cost of a token, {KIT}, beside {NAIVE} (300 streams)"]
    assert (naive.value, naive.verdict) == (0.75, "met")
    node = lines[f"cost of a token, {KIT}, beside {NODE} (300 streams)"]
    assert (node.value, node.verdict) == (1.5, "missed")


def test_a_figure_without_headroom_is_none() -> None:
    rows = [relayed(NAIVE, 300, 40), relayed(KIT, 300, 10, valid=False)]
    assert all(line.verdict == "not measured" for line in budget({"relay": rows}))


def test_an_upstream_that_is_never_left_misses_the_budget() -> None:
    (line,) = [line for line in budget({"gone": [{"p99_ms": 2.0}, {"p99_ms": None}]}) if line.value is not None]
    assert line.verdict == "missed"


def test_the_worse_route_counts() -> None:
    rows = [
        {"subject": subject, "p99_ms": p99, "fairness": 1.5, "starved": 0}
        for subject, p99 in ((KIT, 300.0), (KIT_CHAT, 600.0), (NAIVE, 9000.0))
    ]
    lines = {line.what: line for line in budget({"overload": rows})}
    assert (lines["p99 under overload"].value, lines["p99 under overload"].verdict) == (600.0, "missed")


def test_the_report_says_where_it_was_measured_what_was_found_and_what_is_missing() -> None:
    text = report(
        {
            "machine": {"cpu": "a fast one", "cores": 2},
            "quick": False,
            "seconds": 300,
            "others": {"median": 0.42, "most": 0.9},
            "budget": [Line("cost of a token", 0.8, 0.75).as_json(), Line("p99", 500.0, None, "ms").as_json()],
            "cases": {"relay": [relayed(KIT, 300, 31.4)], "emit": []},
            "subjects": {KIT: "the kit"},
            "skipped": {"LiteLLM": "it is not installed here"},
        },
        CASES,
    )
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert (
        "a fast one" in text
        and "took 42 % of a core, the median of all rows, and 90 % at most" in text
        and CASES["emit"].title not in text
    )
    assert ["cost of a token", "0.8", "0.75", "met"] in lines
    assert ["p99", "500 ms", "", "not measured"] in lines
    assert [KIT, "the kit"] in lines
    assert ["300", KIT, "31.4 us", "1.00 ms", "90 % / 80 %"] in lines
    assert "- LiteLLM: it is not installed here" in text


def test_a_page_gets_the_tables_between_its_marks() -> None:
    assert replaced("a <b> old </b> c", "new", "<b>", "</b>") == "a <b>\n\nnew\n\n</b> c"
    with pytest.raises(ValueError, match="expected <b> and </b>"):
        replaced("a <b> c", "new", "<b>", "</b>")


def test_the_kit_is_measured_beside_the_naive_loop(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "bench.json"
    chosen = [f"--subject={name}" for name in (NAIVE, KIT)]
    command = [sys.executable, "-m", "bench", "--only=relay", "--streams=5", "--rounds=1", "--seconds=0.6"]
    command += [*chosen, f"--interval={INTERVAL_MS}", f"--json={file}"]
    done = subprocess.run(command, cwd=PACKAGE_ROOT, capture_output=True, check=True, timeout=120)
    said = json.loads(file.read_text())
    assert said["schema_version"] == 1 and all(said["machine"][key] for key in ("cpu", "cores", "python", "gunicorn"))
    _, *rows = said["cases"]["relay"]
    assert [row["subject"] for row in rows] == [NAIVE, KIT]
    for row in rows:
        assert row["cpu_us"] > 0 and row["failed"] == 0 and row["tokens_per_second"] > 0
        assert row["headroom"].keys() == {"load", "upstream"}
    assert rows[0]["ratio"] == 1
    assert f"| {NAIVE} " in done.stdout.decode()
