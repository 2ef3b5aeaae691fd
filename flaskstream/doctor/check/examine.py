"""The whole check: ask, judge, and where a compressor holds, ask once more without one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flaskstream.doctor.check.judge import Verdict, judge
from flaskstream.doctor.check.observation import Observation, read_lines
from flaskstream.doctor.check.observe import observe
from flaskstream.doctor.check.paced import PacedUpstream
from flaskstream.doctor.check.question import Question

_SAFE = ("GET", "HEAD")
"""RFC 9110 9.2.1: these may be asked twice."""


@dataclass(frozen=True)
class Checked:
    """A question and its answer.

    Attributes:
        question: as it was asked.
        seen: what was seen.
        verdict: on that.
        without_coding: the verdict on the same request with `Accept-Encoding: identity`; `None`: nobody compresses.
    """

    question: Question
    seen: Observation
    verdict: Verdict
    without_coding: Verdict | None


def check(question: Question, paced: PacedUpstream | None = None) -> Checked:
    """Ask a fresh child, and judge what it saw.

    Args:
        question: what is asked.
        paced: where the HTTP client library is tried, if it is.
    """
    lines = observe(replace(question, reads_from=paced.url if paced else ""))
    seen = read_lines([*(paced.lines() if paced else ()), *lines])
    verdict = judge(seen)
    compresses = any(finding.row.cause == "compression" for finding in verdict.findings)
    plain = None
    if compresses and question.method in _SAFE and question.codings is None:
        headers = (*question.headers, ("Accept-Encoding", "identity"))
        plain = judge(read_lines(observe(replace(question, headers=headers))))
    return Checked(question, seen, verdict, plain)
