"""The kit's commands are `flask`'s too, in an app that has mounted the blueprint; elsewhere `flask` stays as it was."""

from __future__ import annotations

import configparser
import os
import pathlib
import subprocess
import sys

import click
import pytest
from flask import Flask

from flaskstream import Upstream, __version__, create_blueprint
from flaskstream.doctor import exit_codes

ROOT = pathlib.Path(__file__).resolve().parent.parent

APP = """
from flask import Flask
from flaskstream import Upstream, create_blueprint, event_stream

app = Flask(__name__)
app.register_blueprint(create_blueprint(Upstream("http://127.0.0.1:9/v1")), url_prefix="/stream")
app.register_blueprint(create_blueprint(Upstream("http://127.0.0.1:9/v1"), name="second"), url_prefix="/second")

@app.route("/ticks")
@event_stream
def ticks():
    yield from ("one", "two", "three")
"""


@pytest.fixture
def flask(tmp_path):
    """Runs `flask` in the folder of an app."""
    (tmp_path / "legacy.py").write_text(APP)
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environ = {**os.environ, "FLASK_APP": "legacy", "PYTHONPATH": paths, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}

    def run(*arguments):
        command = [sys.executable, "-m", "flask", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, timeout=120)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def test_the_app_of_flask_is_checked(flask):
    code, out, err = flask("flaskstream", "check", "/ticks")
    assert code == exit_codes.EXIT_STREAMS, out + err
    assert "legacy" in out


def test_its_help_names_the_commands_and_so_does_flasks(flask):
    code, out, _ = flask("flaskstream", "--help")
    assert code == 0 and all(name in out for name in ("check", "compare", "doctor", "init", "tail"))
    assert "flaskstream" in flask("--help")[1]


def test_it_tells_the_version(flask):
    code, out, _ = flask("flaskstream", "--version")
    assert code == 0 and __version__ in out


def test_a_command_of_the_apps_own_stays():
    app = Flask("own")
    own = click.Command("flaskstream")
    app.cli.add_command(own)
    app.register_blueprint(create_blueprint(Upstream("http://127.0.0.1:9/v1")), url_prefix="/stream")
    assert app.cli.commands["flaskstream"] is own


def test_a_command_that_is_none_is_told(flask):
    code, _, err = flask("flaskstream", "chekc")
    assert code == 2 and "chekc" in err


def test_no_entry_point_makes_flask_load_the_kit():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert list(setup["options.entry_points"]) == ["console_scripts"]
