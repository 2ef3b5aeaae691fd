"""The two files that `flaskstream init` writes beside an app: what gunicorn serves, and the settings to do so.

They are planned here and written afterwards. Nothing of the app is imported: that would be before gevent has patched.
"""

from __future__ import annotations

import ast
import os
import shlex
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder

from flaskstream.errors import InvalidSetting

WSGI, CONFIG = "wsgi.py", "gunicorn.conf.py"
"""The names under which gunicorn's users look for them; the second one gunicorn finds by itself."""

_WSGI_TEXT = '''\
"""What gunicorn serves: `gunicorn -c gunicorn.conf.py wsgi:app`, in this folder."""

{app}
# A model's answers, token by token, at /stream/chat; whoever reaches it spends your key (authorize=... says who may):
#
# import os
# from flaskstream import Upstream, create_blueprint
#
# upstream = Upstream(os.environ["FLASKSTREAM_UPSTREAM"], os.environ["FLASKSTREAM_API_KEY"], model="...")
# app.register_blueprint(create_blueprint(upstream), url_prefix="/stream")
'''

_CONFIG_TEXT = '''\
"""The settings with which streams stream: `gunicorn -c gunicorn.conf.py {target}`, in this folder."""

# This stays the first import: it has gevent patch the standard library before anything takes hold of ssl.
from flaskstream.gunicorn_conf import *  # noqa: F401,F403

# Your own settings stand below, and win over those above. For example:
# workers = 4  # processes; or set WEB_CONCURRENCY
# bind = "127.0.0.1:8000"
'''


@dataclass(frozen=True)
class Plan:
    """What is to be written.

    Attributes:
        served: what gunicorn is told to serve then, as a shell takes it.
        files: the name and the text of each file.
    """

    served: str
    files: tuple[tuple[str, str], ...]


def plan(target: str, folder: str) -> Plan:
    """Return what is to be written for an app.

    Args:
        target: as gunicorn takes it: `module`, `module:app`, `module:factory()`.
        folder: where the app is started.

    Raises:
        InvalidSetting: it is no such name, or there is no such module.
    """
    module, colon, expression = target.partition(":")
    name, call = _read(target, module, expression if colon else "application")  # as gunicorn takes it
    source = _source_of(module, folder)
    if not (source or _is_installed(module)):
        path = module.replace(".", os.sep)
        raise InvalidSetting(f"the app: expected {path}.py in {folder}, or a package that is installed, got {target!r}")
    if source and not _may_have(source, name):
        raise InvalidSetting(f"the app: expected a name that is in {source}, which has no {name!r}, got {target!r}")
    if module == "wsgi":
        return Plan(shlex.quote(target), ((CONFIG, _CONFIG_TEXT.format(target=shlex.quote(target))),))
    imported = f"from {module} import {name}" + ("" if call or name == "app" else " as app") + "\n"
    app = f"{imported}\napp = {call}\n" if call else imported
    served = "wsgi:app"
    return Plan(served, ((WSGI, _WSGI_TEXT.format(app=app)), (CONFIG, _CONFIG_TEXT.format(target=served))))


def _read(target: str, module: str, expression: str) -> tuple[str, str]:
    """Return the name to import, and the call that makes the app; empty: it is the app itself."""
    try:
        parsed = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError):
        parsed = None
    name = parsed.func if isinstance(parsed, ast.Call) else parsed
    if not all(part.isidentifier() for part in module.split(".")) or not isinstance(name, ast.Name):
        raise InvalidSetting(f"the app: expected module:app or module:factory(), got {target!r}")
    return name.id, expression if isinstance(parsed, ast.Call) else ""


def _source_of(module: str, folder: str) -> str:
    """Return the file of a module in the folder; empty: it has none there."""
    path = os.path.join(folder, *module.split("."))
    return next((file for file in (f"{path}.py", os.path.join(path, "__init__.py")) if os.path.isfile(file)), "")


def _is_installed(module: str) -> bool:
    """Tell whether Python has it elsewhere than in the working directory; the first part is found without an import."""
    elsewhere = [path for path in sys.path if os.path.abspath(path) != os.getcwd()]
    return PathFinder.find_spec(module.split(".")[0], elsewhere) is not None


def _may_have(source: str, name: str) -> bool:
    """Tell whether a file has this name in it, as far as that can be seen without running it."""
    try:
        with open(source, "rb") as file:
            nodes = list(ast.walk(ast.parse(file.read())))
    except (SyntaxError, ValueError):
        return True
    names = {getattr(node, kind, None) for node in nodes for kind in ("id", "name", "asname")}
    return bool(names & {name, "*"})


def taken(plan: Plan, folder: str) -> list[str]:
    """Return the names under which there is something else already."""
    return [name for name, text in plan.files if _text_of(os.path.join(folder, name)) not in (None, text)]


def _text_of(path: str) -> str | None:
    """Return what is there; `None`: nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write(plan: Plan, folder: str) -> list[str]:
    """Write the files; return what was done, a line for each. What was there is kept beside, as `NAME.old`.

    Raises:
        OSError: a file cannot be written. Nothing that was there is lost.
    """
    done = []
    for name, text in plan.files:
        path = os.path.join(folder, name)
        before = _text_of(path)
        if before == text:
            done.append(f"{path}  is there already")
            continue
        kept = _keep(path) if before is not None else ""
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
        done.append(f"{path}  written" + (f"; what was there is now {kept}" if kept else ""))
    return done


def _keep(path: str) -> str:
    """Rename a file to a name that is free."""
    kept, number = f"{path}.old", 1
    while os.path.lexists(kept):
        number += 1
        kept = f"{path}.old{number}"
    os.rename(path, kept)
    return kept
