"""The structure holds: imports point one way, and importing does nothing."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
from typing import Iterator

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent / "flaskstream"

PURE = (
    *("errors", "sse", "dialects", "wire", "come_back"),
    *("signals", "upstream.framings"),
    *("relay.follower", "upstream.retries", "probe.__init__", "probe.plan", "probe.ticks"),
    *("stores.protocol", "resume.__init__", "resume.ids", "resume.ends", "resume.terms", "resume.wire"),
)
CLOCK = ("machine",)
INPUT_OUTPUT = (
    *("settings", "native", "interrupt", "serving", "open_streams", "options", "debug"),
    *("waiting", "direct", "express", "pump", "stream"),
    *("shared_rows", "stats", "tally", "probe.records", *CLOCK, "upstream", "relay"),
    *("background", "stores", "resume"),
)
FLASK = (
    *("contexts", "unbuffered", "response", "guard", "chat_request", "probe.route", "whole_answer", "blueprint"),
    *("resume.delivery", "resume.routes", "client_js", "compare_page", "flask_command"),
)
SHOW = ("show",)
PROXIES = ("proxies",)
DOCTOR = ("doctor",)
CHECK = ("doctor.check",)  # it tries the kit's own reader in the process of the app, so it may know it
EDGES = ("app", "beside", "gunicorn_conf", "lab", "testing", "cli", "__main__", "__init__")

MAY_IMPORT = {
    PURE: PURE,
    INPUT_OUTPUT: PURE + INPUT_OUTPUT,
    FLASK: PURE + INPUT_OUTPUT + FLASK,
    SHOW: SHOW,
    PROXIES: ("errors", *PROXIES),
    DOCTOR: PURE + CLOCK + SHOW + PROXIES + DOCTOR,
    CHECK: PURE + CLOCK + SHOW + PROXIES + DOCTOR + ("upstream",) + CHECK,
    EDGES: PURE + INPUT_OUTPUT + FLASK + SHOW + PROXIES + DOCTOR + CHECK + EDGES,
}
NO_INPUT_OUTPUT = {"socket", "requests", "urllib3", "threading", "time", "flask", "select", "subprocess", "gevent"}


def modules() -> Iterator[pathlib.Path]:
    return PACKAGE.rglob("*.py")


PLACED = {name for layer in MAY_IMPORT for name in layer}


def placed(module: str) -> str:
    """The name under which a module, or the package that it is in, stands in the layers above."""
    package, _, rest = module.partition(".")
    own = f"{package}.{rest.partition('.')[0] or '__init__'}"
    return own if own in PLACED else package


def name_of(path: pathlib.Path) -> str:
    return placed(".".join(path.relative_to(PACKAGE).with_suffix("").parts))


def imports_of(path: pathlib.Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == "flaskstream":
                found |= {f"flaskstream.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", sorted(modules()), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: pathlib.Path) -> None:
    allowed = next(allowed for layer, allowed in MAY_IMPORT.items() if name_of(path) in layer)
    own = {placed(name[len("flaskstream.") :]) for name in imports_of(path) if name.startswith("flaskstream.")}
    assert own <= {*allowed, "__version__"}


@pytest.mark.parametrize("name", PURE)
def test_the_core_does_no_input_or_output(name: str) -> None:
    paths = [path for path in modules() if name_of(path) == name]
    imported = {module.split(".")[0] for path in paths for module in imports_of(path)}
    assert paths and not imported & NO_INPUT_OUTPUT


def test_what_the_embedded_model_says_is_planned_without_input_or_output() -> None:
    model = PACKAGE / "lab" / "model"
    paths = [*model.glob("dialects/*.py"), *(model / f"{name}.py" for name in ("script", "words", "answer"))]
    assert not {module.split(".")[0] for path in paths for module in imports_of(path)} & NO_INPUT_OUTPUT


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode().split())


def test_importing_the_package_loads_nothing_that_gevent_must_patch_first() -> None:
    assert not loaded_by("import flaskstream") & {"ssl", "requests", "flask", "gevent"}


def test_production_never_loads_the_lab() -> None:
    loaded = loaded_by(
        "import flaskstream; flaskstream.create_blueprint, flaskstream.event_stream, flaskstream.Upstream"
    )
    assert "flaskstream.blueprint" in loaded
    assert not {name for name in loaded if name.startswith(("flaskstream.lab", "flaskstream.doctor"))}


def test_the_command_loads_what_it_needs_when_it_needs_it() -> None:
    assert not loaded_by("import flaskstream.cli") & {"requests", "gevent", "flaskstream.lab"}
