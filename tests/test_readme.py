"""The README works: its blocks run, its commands and options are there, its tables are those of the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
import signal
from urllib.parse import urlsplit

import click
import pytest
from pages import ROOT, Page, code

from flaskstream import cli, create_blueprint, errors
from flaskstream.app import create_app
from flaskstream.cli.compare import EXIT_NOT_SHOWN
from flaskstream.cli.console import EXIT_INTERRUPTED, EXIT_NOT_MEASURED, EXIT_SIGNAL
from flaskstream.dialects import DIALECTS
from flaskstream.doctor import exit_codes
from flaskstream.doctor.measure import Request, record
from flaskstream.errors import FlaskStreamError, InvalidSetting
from flaskstream.lab.faults import FAULTS, active_faults
from flaskstream.lab.figures import MODE_FIGURES
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess
from flaskstream.proxies import PROXIES
from flaskstream.response import StreamOptions
from flaskstream.settings import Settings
from flaskstream.testing import open_stream
from flaskstream.upstream import Upstream

README = Page("README.md")
MISTAKES = Page("docs/mistakes.md")
PAGES = (
    *("README.md", "CHANGELOG.md", "samples/README.md"),
    *(f"docs/{name}.md" for name in ("client", "doctor", "mistakes", "operations", "performance")),
    *(f"docs/{name}.md" for name in ("resume", "security", "sizing", "wire")),
)
MOUNTING, GENERATOR, TESTING = README.blocks("python")
NOT_THERE = "What it does not do"

SCRIPT = Script(tokens=8, interval_ms=50)


def said(value):
    """Return a default as the tables say it."""
    if value is None or value == ():
        return "unset"
    return code(int(value) if isinstance(value, bool) else value)


# What runs.


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    """The first block as `app.py`, under the command below it, with a model of ours."""
    folder = tmp_path_factory.mktemp("mounted")
    (folder / "app.py").write_text(MOUNTING, "utf-8")
    with ModelProcess(SCRIPT) as model:
        settings = {"upstream": model.url, "api_key": "sk-of-a-test"}
        with GunicornProcess(settings, app="app:app", folder=str(folder)) as server:
            server.wait_until_it_answers()
            yield server


def test_the_mounted_blueprint_streams_token_by_token(mounted):
    with open_stream(mounted.url + "/stream/chat?q=hello") as stream:
        *tokens, end = stream
    assert "".join(token.event.json()["t"] for token in tokens) == SCRIPT.text
    assert tokens[-1].at - tokens[0].at > SCRIPT.interval_ms / 1000 * (SCRIPT.tokens - 1) * 0.7
    assert end.event.event == "done"


def test_the_generator_streams_item_by_item(tmp_path):
    (tmp_path / "app.py").write_text(GENERATOR, "utf-8")
    with GunicornProcess(app="app:app", folder=str(tmp_path)) as server:
        server.wait_until_it_answers()
        with open_stream(server.url + "/clock") as stream:
            *ticks, bell, done = stream
    assert [tick.event.json() for tick in ticks] == [{"n": n} for n in range(5)]
    assert ticks[-1].at - ticks[0].at > 0.2 * 4 * 0.7
    assert (bell.event.event, bell.event.data, done.event.event) == ("bell", "ding", "done")


def run_the_test_in(block):
    names = {"__name__": "test_ticks"}
    exec(block, names)
    names["test_ticks_come_one_by_one"]()


def test_the_test_passes_when_it_streams():
    run_the_test_in(TESTING)


def test_the_test_fails_when_all_comes_at_once():
    with pytest.raises(AssertionError):
        run_the_test_in(TESTING.replace("            time.sleep(0.1)\n", ""))


# What is typed.


def make_targets():
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def routes(mode="fixed"):
    app = create_app(Settings(mode=mode, upstream="http://127.0.0.1:1/v1"))
    return {rule.rule for rule in app.url_map.iter_rules()}


def words_of(command):
    return [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]


def test_every_command_is_one_that_is_checked_here():
    programs = {"make", "export", "gunicorn", "curl", "flaskstream"}
    assert {words_of(command)[0] for command in README.commands()} == programs


@pytest.mark.parametrize("command", [c for c in README.commands() if c.startswith("make")])
def test_every_make_target_is_there(command):
    assert words_of(command)[1] in make_targets()


@pytest.mark.parametrize("command", [c for c in README.commands() if " gunicorn " in f" {c}"])
def test_every_gunicorn_command_names_settings_and_an_app_that_are_there(command):
    _, option, config, app = words_of(command.split(" | ")[0])
    assert option == "-c"
    assert config == "python:flaskstream.gunicorn_conf" or (ROOT / config).is_file()
    assert app in ("app:app", "wsgi:app") and (app == "app:app" or (ROOT / "wsgi.py").is_file())


@pytest.mark.parametrize("command", [c for c in README.commands() if c.startswith("curl")])
def test_every_curl_command_reads_unbuffered_from_a_route_that_is_there(command):
    words = words_of(command)
    (url,) = [urlsplit(word) for word in words if word.startswith("http")]
    assert "-N" in words
    assert url.path in routes("broken" if url.port == 8001 else "fixed")


def test_the_ports_are_those_of_make():
    recipe = (ROOT / "Makefile").read_text("utf-8").split("\nserve-broken:")[1].split("\n\n")[0]
    assert "FLASKSTREAM_MODE=broken" in recipe
    assert "127.0.0.1:8001" in recipe


def test_the_slow_model_is_as_slow_as_it_says():
    (command,) = [c for c in README.commands() if "interval_ms" in c]
    words = words_of(command)
    payload = words[words.index("-d") + 1]
    script = Script.parse(re.search(r'"model": "([^"]+)"', payload)[1])
    assert (script.tokens, script.interval_ms) == (8, 500)


def test_the_slow_model_can_be_asked_for_in_the_demonstration():
    (command,) = [c for c in README.commands() if "interval_ms" in c]
    words = words_of(command)
    payload, headers = words[words.index("-d") + 1], words[words.index("-H") + 1]
    name, value = headers.split(": ")
    with GunicornProcess() as server:
        request = Request(server.url + "/stream/chat", "POST", ((name, value),), payload.encode(), timeout=30)
        seen = record(request, stop_after=2)
    assert seen.status == 200
    assert seen.events[1].at - seen.events[0].at > 0.25


@pytest.mark.parametrize("variable", sorted(set(re.findall(r"FLASKSTREAM_[A-Z_]+", README.text))))
def test_every_variable_is_read(variable):
    with pytest.raises(InvalidSetting) as refused:
        Settings.from_environment({"FLASKSTREAM_NO_SUCH": "1"})
    assert variable in str(refused.value)


def test_the_embedded_model_listens_where_it_says():
    defaults = {parameter.name: parameter.default for parameter in cli.main.commands["model"].params}
    assert f"`flaskstream model` is one, at `http://{defaults['host']}:{defaults['port']}/v1`" in README.text


def test_every_option_of_a_command_is_there():
    section = README.section("Broken and fixed, by hand")
    options = {option for parameter in cli.main.commands["compare"].params for option in parameter.opts}
    assert set(re.findall(r"`(--[\w-]+)", section)) <= options
    named = set(re.findall(r"`flaskstream ([\w-]+)", README.text.split(f"## {NOT_THERE}")[0]))
    assert named <= set(cli.main.commands)


def test_every_command_is_in_the_table():
    documented = [name for name, _ in README.rows("The commands")]
    assert documented == [code(f"flaskstream {name}") for name in sorted(cli.main.commands)]


def test_what_is_not_there_is_not_there():
    section = README.section(NOT_THERE)
    planned = {f"/stream{path}" for path in re.findall(r"`(/[\w./<>]+)`", section)} - {
        "/stream/v1/chat/completions",
        "/stream/v1/messages",
        "/stream/chat",
    }
    assert not planned & routes()


# What is in the tables.


def test_the_options_are_those_of_event_stream():
    documented = [row[:2] for row in README.rows("A view that is a generator")]
    assert documented == [(code(field.name), code(field.default)) for field in dataclasses.fields(StreamOptions)]


def test_the_routes_are_those_of_the_blueprint():
    app = create_app(Settings(upstream="http://127.0.0.1:1/v1"))
    there = {
        (method, rule.rule.replace("/stream", "", 1).replace("<stream_id>", "<id>"))
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/stream")
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    documented = [re.fullmatch(r"`(\w+) ([^?`]+).*`", row[0]).groups() for row in README.rows("The blueprint")]
    assert set(documented) == there
    assert len(documented) == len(there)


def test_the_arguments_are_those_of_the_blueprint_and_of_the_upstream():
    section = README.section("The blueprint")
    of_blueprint = set(inspect.signature(create_blueprint).parameters) - {"upstream"}
    assert of_blueprint <= set(re.findall(r"`(\w+)`", section))
    of_upstream = ", ".join(inspect.signature(Upstream).parameters)
    assert f"`Upstream({of_upstream})`" in section


def test_the_dialects_are_those_of_the_table():
    rows = README.rows("Dialects")
    assert [name for name, *_ in rows] == [code(name) for name in DIALECTS]
    for name, _, marks in rows:
        assert DIALECTS[name.strip("`")].ends_with_body == ("the body" in marks)


def test_the_variables_are_those_of_the_settings():
    documented = [row[:2] for row in README.rows("The settings")]
    fields = dataclasses.fields(Settings)
    assert documented == [(code(f"FLASKSTREAM_{field.name.upper()}"), said(field.default)) for field in fields]


def test_the_mistakes_are_those_of_the_table():
    documented = MISTAKES.rows("Twelve mistakes, and their cures")
    assert documented == [(code(fault.name), fault.sentence, fault.cure) for fault in FAULTS.values()]


def test_the_usual_mistakes_of_the_broken_mode_are_named():
    usual = [code(fault.name) for fault in active_faults(())]
    assert f"The broken mode has {', '.join(usual[:-1])} and {usual[-1]}" in " ".join(MISTAKES.text.split())


def test_the_exit_codes_are_those_of_the_doctor():
    rows = [row for row in README.rows("Find the hop that holds the bytes") if row[0].isdigit()]
    assert [int(row[0]) for row in rows] == [*exit_codes.MEANINGS, EXIT_INTERRUPTED]


def test_the_proxies_are_those_of_the_table():
    section = " ".join(README.section("Find the hop that holds the bytes").split())
    names = [proxy.what.split()[0] for proxy in PROXIES.values()]
    assert f"`flaskstream proxy-config`, for {', '.join(names[:-1])} and {names[-1]}:" in section


def test_the_exit_codes_are_those_of_compare():
    rows = [row for row in README.rows("Broken and fixed, by hand") if row[0].isdigit()]
    ctrl_c = EXIT_SIGNAL + signal.SIGINT
    codes = [0, EXIT_NOT_SHOWN, click.UsageError.exit_code, EXIT_NOT_MEASURED, ctrl_c]
    assert [int(row[0]) for row in rows] == codes


def error_classes(root=FlaskStreamError):
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from error_classes(child)


def test_the_error_codes_are_those_of_the_tree():
    first = {}
    for error in error_classes():
        first.setdefault(error.code, error)
    expected = [(code(name), str(error.status), error.message) for name, error in first.items()]
    assert README.rows("Errors") == expected


def test_the_versions_are_those_of_the_metadata():
    metadata = (ROOT / "setup.cfg").read_text("utf-8")
    section = README.section("Versions")
    for requirement in re.search(r"install_requires =\n((?:    .*\n)+)", metadata)[1].splitlines():
        if "#" not in requirement:
            assert requirement.strip() in section
    assert "python_requires = >=3.8\n" in metadata and "Python 3.8 or later" in section


# What is shown.


def test_the_comparison_is_one_that_compare_prints():
    (shown,) = [block for block in README.blocks("console") if block.startswith("$ make compare")]
    labels = [figure.label for figure in MODE_FIGURES]
    assert [line[2:18].strip() for line in shown.splitlines() if line[2:18].strip() in labels] == labels
    assert "broken = " + ", ".join(fault.name for fault in active_faults(())) in shown
    assert f"{len(FAULTS)} of {len(FAULTS)} showed" in shown
    assert "✓ Fixed streams, broken does not." in shown


@pytest.mark.parametrize("path", PAGES)
def test_every_link_inside_the_project_leads_somewhere(path):
    page = Page(path)
    for link in page.links():
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        file = (page.path.parent / target).resolve() if target else page.path
        assert file.exists(), link
        assert not anchor or anchor in Page(file.relative_to(ROOT)).anchors(), link


def test_every_page_is_checked():
    skipped = {".venv", ".git", "node_modules"}
    found = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.md")
        if not any(part.startswith(".") or part in skipped for part in path.relative_to(ROOT).parts)
    }
    assert found == set(PAGES)
