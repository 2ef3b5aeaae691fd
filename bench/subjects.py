"""Whom the bench measures, by name: the kit and its peers, each with one worker process."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from dataclasses import dataclass
from typing import Callable, Mapping
from urllib.parse import urlsplit

from bench import descriptors
from flaskstream.lab.processes import PACKAGE_ROOT

ROOT = pathlib.Path(PACKAGE_ROOT)
PEERS = ROOT / "bench" / "peers"

NAIVE, KIT, KIT_CHAT, KIT_STORE = "naive Flask", "flaskstream", "flaskstream /chat", "flaskstream /chat, stored"
OURS = (KIT, KIT_CHAT, KIT_STORE)
DIRECT = "none: the model itself"
STARLETTE, GRANIAN, LITELLM, NODE, NGINX = "Starlette", "Granian", "LiteLLM", "Node", "nginx"

_CONNECTIONS = "19000"
"""Streams that a gunicorn worker may hold at once; what a machine allows in descriptors ends before."""

_FAITHFUL, _CHAT = "/v1/chat/completions", "/chat"


class NotHere(Exception):
    """A peer cannot be had on this machine; says what is missing."""


@dataclass(frozen=True)
class Where:
    """How a server is started.

    Attributes:
        port: it listens there, on 127.0.0.1.
        upstream: the base URL whom it asks.
        folder: for what it has to write.
    """

    port: int
    upstream: str
    folder: str


@dataclass(frozen=True)
class Subject:
    """One that is measured.

    Attributes:
        name: in tables.
        words: what it is, in a line.
        command: of its program; raises `NotHere`.
        path: what is asked there.
        environment: for it.
    """

    name: str
    words: str
    command: Callable[[Where], list[str]]
    path: str = _FAITHFUL
    environment: Mapping[str, str] | None = None


def _gunicorn(app: str, *arguments: str) -> Callable[[Where], list[str]]:
    return lambda where: [
        *(sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{where.port}", "--workers", "1"),
        *("--worker-connections", _CONNECTIONS, "--backlog", "4096", *arguments, app),
    ]


def _naive(where: Where) -> list[str]:
    return _gunicorn("bench.peers.naive_flask:app", "--worker-class", "gevent")(where)


def _kit(where: Where) -> list[str]:
    return _gunicorn("bench.kit:app", "-c", "python:flaskstream.gunicorn_conf")(where)


def _uvicorn(where: Where) -> list[str]:
    for name in ("uvicorn", "uvloop", "httptools", "starlette", "sse_starlette", "httpx"):
        _need_module(name)
    return [
        *(sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", str(where.port), "--loop", "uvloop"),
        *("--http", "httptools", "--no-access-log", "--log-level", "warning", "bench.peers.starlette_app:app"),
    ]


def _granian(where: Where) -> list[str]:
    for name in ("granian", "starlette", "sse_starlette", "httpx"):
        _need_module(name)
    return [
        *(sys.executable, "-m", "granian", "--host", "127.0.0.1", "--port", str(where.port), "--interface", "asgi"),
        *("--workers", "1", "--backlog", "4096", "--no-access-log", "--log-level", "warning"),
        "bench.peers.starlette_app:app",
    ]


def _node(where: Where) -> list[str]:
    return [_program("node"), str(PEERS / "pipe.mjs"), str(where.port), where.upstream]


def _nginx(where: Where) -> list[str]:
    program = _program("nginx")
    text = (PEERS / "nginx.conf").read_text()
    path = pathlib.Path(where.folder) / "nginx.conf"
    path.write_text(text.format(**_nginx_words(where)))
    return [program, "-e", "stderr", "-p", where.folder, "-c", str(path)]


def _nginx_words(where: Where) -> dict[str, object]:
    files = descriptors.allow_all()
    upstream = urlsplit(where.upstream).netloc
    return {
        "folder": where.folder,
        "upstream": upstream,
        "port": where.port,
        "files": files,
        "connections": files - 100,
    }


def _litellm(where: Where) -> list[str]:
    own = ROOT / ".venv-bench-litellm" / "bin"
    program = shutil.which("litellm", path=f"{own}:{os.environ.get('PATH', '')}")
    if program is None:
        raise NotHere("it is not installed here (make bench does so where it can be had)")
    path = pathlib.Path(where.folder) / "litellm.yaml"
    path.write_text((PEERS / "litellm.yaml").read_text().format(upstream=where.upstream))
    return [program, "--config", str(path), "--host", "127.0.0.1", "--port", str(where.port), "--num_workers", "1"]


_LITELLM_SETTINGS = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # nobody else reaches it
    "LITELLM_LOCAL_MODEL_COST_MAP": "true",  # and it asks the network for nothing
    "LITELLM_LOG": "ERROR",
}


def _program(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise NotHere(f"there is no {name} here")
    return found


def _need_module(name: str) -> None:
    from importlib.util import find_spec

    if find_spec(name) is None:
        raise NotHere(f"there is no Python package {name} here (make bench installs it)")


SUBJECTS: Mapping[str, Subject] = {
    subject.name: subject
    for subject in (
        Subject(NAIVE, "requests, iter_lines(), yield; gunicorn, gevent", _naive),
        Subject(KIT, "/v1/chat/completions: the events as they came; gunicorn, gevent", _kit),
        Subject(KIT_CHAT, "/chat: events of the kit's own; gunicorn, gevent", _kit, _CHAT),
        Subject(KIT_STORE, "the same, kept in memory and with ids", _kit, _CHAT, {"BENCH_STORE": "memory:"}),
        Subject(STARLETTE, "httpx, sse-starlette; uvicorn, uvloop, httptools", _uvicorn),
        Subject(GRANIAN, "the same Starlette app under Granian", _granian),
        Subject(LITELLM, "its proxy, one worker", _litellm, environment=_LITELLM_SETTINGS),
        Subject(NODE, "http, pipe()", _node),
        Subject(NGINX, "proxy_buffering off", _nginx),
    )
}
"""What is measured, by name. The naive loop comes first: the others are compared with it."""
