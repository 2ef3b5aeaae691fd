"""The doctor in front of real programs. All of the cases are run by `make doctor-table`; these are one of each kind."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Iterator

import pytest
from hops.cases import CASES, FINE, allows, is_right, judged
from hops.stack import NotHere, Stand

from flaskstream.doctor.chain import judge
from flaskstream.doctor.diagnosis import Diagnosis
from flaskstream.doctor.examine import examine
from flaskstream.doctor.look import Looker

CHOSEN = (
    "nginx stock",
    "nginx ignores the mark",
    "nginx > nginx: the mark is eaten",
    "nginx read timeout 1 s",
    "nginx limits connections",
    "haproxy stock",
    "haproxy no-delay",
    "caddy buffers > apache",
    "apache mod_sed",
    "lighttpd stock",
    "express compression, no mark",
    "node holds the first 1 KB",
    "node ends after 2 s",
    "node 80 ms away",
    "gzip without flush",
    "joined with length",
    "batches of 10",
    "sync",
    "blocked hub",
    "replaying",
    "lab none: the chat",
    "lab none, 100 tokens a second: the chat",
    "lab body_reading_hook: the chat",
    "lab unstreamed_upstream: the chat",
    "lab late_reader: the chat",
    "lab blocked_hub: the chat",
    "lab worker_timeout: the probe",
)

AT_ONCE = 6
"""Cases that run side by side: they wait most of the time, and each has servers of its own."""

HOP_SECONDS = 30.0
HEALTHY_SECONDS = 5.0
START_SECONDS = 2.0  # that a busy machine may take more


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Diagnosis]]]:
    """All examinations that were asked for, side by side."""
    wanted = [item.callspec.params["name"] for item in request.session.items if item.module is request.module]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(examined, name) for name in wanted}


def examined(name: str) -> Diagnosis:
    case = CASES[name]
    with Stand() as stand:
        return examine([Looker(url) for url in stand.urls(case.servers, case.endpoint)], case.silence_seconds)


@pytest.mark.parametrize("name", CHOSEN)
def test_the_hop_that_holds_is_named_with_what_it_does_and_why(
    running: dict[str, Future[Diagnosis]], name: str
) -> None:
    try:
        diagnosis = running[name].result()
    except NotHere as error:
        pytest.skip(str(error))
    case, hops = CASES[name], diagnosis.hops
    assert is_right(case, hops), (judged(hops), diagnosis.as_json())
    assert diagnosis.seconds < HOP_SECONDS * len(hops)
    if not any("long" in hop.evidence.looks for hop in hops) and all(verdict == FINE for verdict in case.verdicts):
        assert diagnosis.seconds < (HEALTHY_SECONDS + START_SECONDS) * len(hops)
    # What the outermost hop does is seen without the others too, if they do nothing.
    if all(verdict == FINE for verdict in case.verdicts[1:]):
        (alone,) = judge([hops[0].evidence])
        assert allows(case.verdicts[0], alone.verdict.name), alone.verdict
