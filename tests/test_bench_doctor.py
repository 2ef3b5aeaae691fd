"""The measuring of the doctor: one case that takes no time, and the tables."""

from __future__ import annotations

from hops.cases import CASES, HEALTHY

from bench.doctor import GROUPS, Outcome, as_markdown, run_case


def test_a_case_is_started_and_judged() -> None:
    outcome = run_case("a page")
    assert (outcome.verdicts, outcome.mark, outcome.alone) == (("not_a_stream",), "right", True)


def test_the_table_counts_what_was_right_and_what_was_not() -> None:
    outcomes = [
        Outcome("gevent", ("streams",), is_right=True, alone=True),
        Outcome("sync", ("streams",), alone=False),
        Outcome("joined", ("held_to_end",), "unknown"),
        Outcome("caddy stock", problem="needs caddy"),
    ]
    text = as_markdown(outcomes, 200, [])
    assert "| apps and servers | 3 | 1 | 1 | 1 | 0 |" in text
    assert "| all | 4 | 1 | 1 | 1 | 1 |" in text
    assert "right in 1 of 2" in text
    assert "200 times, 0 false alarms" in text


def test_every_case_is_in_one_group_and_says_why_two_answers_are_right() -> None:
    assert sorted(name for cases in GROUPS.values() for name in cases) == sorted(CASES)
    assert set(HEALTHY) <= set(CASES)
    for name, case in CASES.items():
        assert len(case.verdicts) == len(case.servers) + bool(case.endpoint), name
        assert case.why or not any("|" in verdict for verdict in case.verdicts), name
