"""Load the app in the order in which gunicorn would: its own modules, the config, gevent's patching, the app.

With `preload_app` the app comes before the patching, as it does there.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.question import FLASK, NO_CONFIG, Question

OWN_CONFIG = "gunicorn.conf.py"
KIT_CONFIG = "python:flaskstream.gunicorn_conf"


def load(question: Question, log: Log) -> Any:
    """Return the app; what was done for it is written down.

    Raises:
        Exception: what the config or the app raised.
        SystemExit: gunicorn gave up, and said why on stderr.
    """
    if question.config == NO_CONFIG:
        _find_modules_here()
        app = _import(question)
        _say(log, NO_CONFIG, "", False, "app" if _is_patched() else "")
        return app
    config = question.config or (OWN_CONFIG if os.path.exists(OWN_CONFIG) else KIT_CONFIG)
    gunicorn = _gunicorn(config, question.target)
    settings = gunicorn.cfg
    worker = str(settings.worker_class_str)
    patched_by = "config" if _is_patched() else ""
    app = _import(question) if settings.preload_app else None
    if "gevent" in worker and not _is_patched():
        _patch(settings)
        patched_by = "worker"
    app = _import(question) if app is None else app
    _say(log, config, worker, bool(settings.preload_app), patched_by or ("app" if _is_patched() else ""))
    return app


def _say(log: Log, config: str, worker: str, preload: bool, patched_by: str) -> None:
    log.say("loaded", config=config, worker=worker, preload=preload, patched_by=patched_by, versions=_versions())


def _gunicorn(config: str, target: str) -> Any:
    from gunicorn.app.wsgiapp import WSGIApplication

    # gunicorn reads its arguments there. The name before them is that of the command.
    sys.argv = ["gunicorn", "-c", config, target or "app"]
    return WSGIApplication("%(prog)s [OPTIONS] [APP_MODULE]")


def _patch(settings: Any) -> None:
    """Do what the gevent worker does when it starts."""
    settings.worker_class  # noqa: B018 - loads the worker's module, as the master does before it forks
    from gevent import monkey

    monkey.patch_all()


def _import(question: Question) -> Any:
    if question.loader == FLASK:
        return _import_as_flask(question.target)
    from gunicorn.util import import_app

    return import_app(question.target)


def _import_as_flask(target: str) -> Any:
    from flask.cli import ScriptInfo

    return ScriptInfo(app_import_path=target or None).load_app()


def _find_modules_here() -> None:
    """Do as gunicorn does: modules are looked for in the working directory."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def _is_patched() -> bool:
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("ssl"))


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("flask", "werkzeug", "gunicorn", "gevent"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
