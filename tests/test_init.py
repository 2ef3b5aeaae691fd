"""`flaskstream init` writes two files with which a legacy app streams, and loses nothing that was there."""

from __future__ import annotations

import ast
import json
import pathlib
import shutil
import threading
import time
import urllib.request

import pytest
from click.testing import CliRunner

from flaskstream.cli import main
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.testing import open_stream

APPS = pathlib.Path(__file__).parent / "apps"
INTERVAL_SECONDS, TICKS = 0.1, 6  # of apps/legacy.py
AT_ONCE = 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copy(APPS / "legacy.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*arguments):
    return CliRunner().invoke(main, ["init", *arguments])


def read_ticks(url, spans):
    with open_stream(url) as stream:
        came = [time.monotonic() for _ in stream]
    spans.append((came[0], came[-1]))


@pytest.mark.parametrize(
    ("target", "name"), [("legacy:application", "legacy"), ("legacy:create_app('of a call')", "of a call")]
)
def test_with_what_it_wrote_a_legacy_app_streams_to_several_at_once(folder, target, name):
    assert init(target).exit_code == 0
    with GunicornProcess(app="wsgi:app", config="gunicorn.conf.py", folder=str(folder)) as server:
        server.wait_until_it_answers("/tls")
        with urllib.request.urlopen(server.url + "/tls") as answer:
            told = json.loads(answer.read())
        spans = []
        readers = [threading.Thread(target=read_ticks, args=(server.url + "/ticks", spans)) for _ in range(AT_ONCE)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert told["name"] == name
    assert told["context"].startswith("gevent"), "the app came before the patching"
    firsts, lasts = zip(*spans)
    assert len(firsts) == AT_ONCE and max(firsts) < min(lasts), "one after the other"
    assert all(last - first > INTERVAL_SECONDS * (TICKS - 1) * 0.7 for first, last in spans)


def test_the_config_imports_that_of_the_kit_before_all_else(folder):
    init("legacy:application")
    tree = ast.parse((folder / "gunicorn.conf.py").read_text("utf-8"))
    first = next(node for node in tree.body if not isinstance(node, ast.Expr))  # behind the docstring
    assert isinstance(first, ast.ImportFrom) and first.module == "flaskstream.gunicorn_conf"


def test_it_finds_what_it_wrote_and_leaves_it(folder):
    init("legacy:application")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = init("legacy:application")
    assert again.exit_code == 0 and again.output.count("is there already") == 2
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["wsgi.py", "gunicorn.conf.py"])
def test_what_is_there_is_not_overwritten_and_nothing_is_written_beside_it(folder, name):
    (folder / name).write_text("mine = 1\n", "utf-8")
    refused = init("legacy:application")
    assert refused.exit_code == 1 and name in refused.output and "--force" in refused.output
    assert sorted(path.name for path in folder.iterdir()) == sorted(["legacy.py", name])
    assert (folder / name).read_text("utf-8") == "mine = 1\n"


def test_with_force_it_is_kept_beside_each_time(folder):
    for number in range(3):
        (folder / "wsgi.py").write_text(f"mine = {number}\n", "utf-8")
        assert init("legacy:application", "--force").exit_code == 0
    kept = [(folder / name).read_text("utf-8") for name in ("wsgi.py.old", "wsgi.py.old2", "wsgi.py.old3")]
    assert kept == [f"mine = {number}\n" for number in range(3)]
    assert "from legacy import application as app" in (folder / "wsgi.py").read_text("utf-8")


def test_an_app_that_is_served_as_wsgi_keeps_its_file(folder):
    (folder / "wsgi.py").write_text("from legacy import application\n", "utf-8")
    done = init("wsgi:application")
    assert done.exit_code == 0 and "gunicorn -c gunicorn.conf.py wsgi:application" in done.output
    assert (folder / "wsgi.py").read_text("utf-8") == "from legacy import application\n"
    assert (folder / "gunicorn.conf.py").exists()


def test_the_folder_can_be_named_and_the_app_be_a_package(folder, tmp_path_factory, monkeypatch):
    package = folder / "shop" / "web"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from legacy import create_app\n", "utf-8")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    done = init("shop.web:create_app()", "--directory", str(folder))
    assert done.exit_code == 0 and f"cd {folder} && flaskstream check wsgi:app /PATH" in done.output
    assert "from shop.web import create_app\n\napp = create_app()\n" in (folder / "wsgi.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("legcy:application", "expected legcy.py in ., or a package that is installed, got 'legcy:application'"),
        ("legacy:aplication", "legacy.py, which has no 'aplication', got 'legacy:aplication'"),
        ("legacy:", "got 'legacy:'"),
        ("legacy:a b", "expected module:app or module:factory(), got 'legacy:a b'"),
        ("legacy:app.wsgi", "expected module:app or module:factory(), got 'legacy:app.wsgi'"),
        ("../legacy:app", "expected module:app or module:factory(), got '../legacy:app'"),
        ("legacy.py", "got 'legacy.py'"),
    ],
)
def test_an_app_that_cannot_be_is_refused_and_nothing_written(folder, target, said):
    refused = init(target)
    assert refused.exit_code == 64 and said in " ".join(refused.output.split())
    assert [path.name for path in folder.iterdir()] == ["legacy.py"]


def test_a_name_that_may_come_from_elsewhere_is_taken(folder):
    (folder / "stars.py").write_text("from legacy import *\n", "utf-8")
    assert init("stars:application").exit_code == 0


def test_a_folder_that_cannot_be_written_to_is_said_and_the_app_is_not_imported(folder):
    (folder / "legacy.py").write_text("raise SystemExit('imported')\napp = 1\n", "utf-8")
    (folder / "wsgi.py").symlink_to(folder / "nowhere" / "wsgi.py")
    refused = init("legacy:app")
    assert refused.exit_code == 3 and "expected a folder that can be written to" in refused.output
