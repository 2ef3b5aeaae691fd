"""What the tests of `flaskstream check` share: a question to an app of `apps/checked.py`, and what was found."""

from __future__ import annotations

import functools
import pathlib

import pytest

from flaskstream.doctor.check.examine import check
from flaskstream.doctor.check.findings import SEVERITIES
from flaskstream.doctor.check.question import Question

ROOT = pathlib.Path(__file__).parent.parent
APPS = ROOT / "tests" / "apps"
SAMPLES = ROOT / "samples"
APP = APPS / "checked.py"
KIT_CONFIG = "python:flaskstream.gunicorn_conf"


@pytest.fixture(autouse=True)
def in_the_folder_of_the_apps(monkeypatch):
    monkeypatch.chdir(APPS)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@functools.lru_cache(maxsize=None)
def asked(factory, path, **how):
    return check(Question(f"checked:{factory}()", path, **how))


def line_of(mark, file=APP):
    """The number of the line whose comment ends so."""
    lines = file.read_text("utf-8").splitlines()
    (found,) = [n for n, line in enumerate(lines, 1) if line.endswith((f"# {mark}", f" - {mark}"))]
    return found


def codes(checked, *severities):
    wanted = severities or SEVERITIES
    return [finding.code for finding in checked.verdict.findings if finding.row.severity in wanted]


def the_finding(checked, code):
    (finding,) = [finding for finding in checked.verdict.findings if finding.code == code]
    return finding


def assert_names(checked, code, mark, file=APP):
    """The finding is there, and its first place is the marked line."""
    first = the_finding(checked, code).places[0]
    assert (first.file, first.line) == (str(file), line_of(mark, file))
