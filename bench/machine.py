"""What the figures depend on: the machine, the interpreter, and who is measured."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = (
    *("flask", "gunicorn", "gevent", "requests", "urllib3", "starlette", "httpx", "sse-starlette", "uvicorn", "uvloop"),
    *("httptools", "granian"),
)
PROGRAMS = {
    "node": ("node", "--version"),
    "nginx": ("nginx", "-v"),
    "redis": ("redis-server", "--version"),
}
_VERSION = re.compile(r"\d+(\.\d+)+")


def machine() -> dict[str, Any]:
    """Name this machine. What is not installed is left out."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := _package(name))},
        **{name: found for name, command in PROGRAMS.items() if (found := _program(command))},
    }


def _cpu_model() -> str:
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.machine()


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _program(command: tuple[str, ...]) -> str:
    path = shutil.which(command[0], path=os.environ.get("PATH", "") + ":/usr/sbin")
    if path is None:
        return ""
    done = subprocess.run([path, *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    found = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    return found[0] if found else ""
