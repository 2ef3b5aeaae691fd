"""`flaskstream check` on an app that cannot be loaded as it is named, or not in time."""

from __future__ import annotations

import pytest
from checking import APPS, in_the_folder_of_the_apps, line_of  # noqa: F401 - one is a fixture

from flaskstream.doctor.check.examine import check
from flaskstream.doctor.check.judge import CANNOT_TELL
from flaskstream.doctor.check.question import Question

FILE = APPS / "never_loads.py"


@pytest.mark.parametrize("config", ["", "none", "gunicorn_gthread.py"])
@pytest.mark.parametrize("way", ["waits", "serves"])
def test_an_app_that_never_loads_is_told_with_its_line(way, config, monkeypatch):
    monkeypatch.setenv("NEVER_LOADS", way)
    checked = check(Question("never_loads:app", "/", config=config, load_seconds=3.0))
    assert checked.verdict.name == CANNOT_TELL
    line = line_of(way, FILE)
    assert f"did not load in 3 s: it is at never_loads.py:{line}" in checked.verdict.sentence
    assert ("__main__" in checked.verdict.sentence) == (way == "serves")


@pytest.mark.parametrize("name", ["create_app", "create_named_app"])
@pytest.mark.parametrize("path", ["", "/"])
def test_a_factory_that_is_not_called_is_told(name, path):
    sentence = check(Question(f"never_loads:{name}", path)).verdict.sentence
    assert sentence == (
        f"Cannot tell: {name} is no app but a factory: write {name}() after the colon, with its arguments if"
        " it needs any."
    )


def test_a_factory_that_is_called_is_no_factory():
    assert "no route" in check(Question("never_loads:create_app()", "/")).verdict.sentence
