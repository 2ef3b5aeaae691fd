"""Modules that wait outside of gevent's hub: while one does, no other stream of the worker gets a turn."""

from __future__ import annotations

import sys
from typing import Any, Callable, Mapping

from flaskstream.doctor.check.imports import ImportWatch
from flaskstream.doctor.check.log import Log


def _psycopg2_waits_in_c() -> bool:
    extensions: Any = sys.modules.get("psycopg2.extensions")
    return "psycogreen" not in sys.modules and (extensions is None or extensions.get_wait_callback() is None)


def _grpc_waits_in_c() -> bool:
    return "grpc.experimental.gevent" not in sys.modules


BLOCKING: Mapping[str, Callable[[], bool]] = {
    "psycopg2": _psycopg2_waits_in_c,
    "sqlite3": lambda: True,
    "grpc": _grpc_waits_in_c,
    "MySQLdb": lambda: True,
    "pymssql": lambda: True,
    "cx_Oracle": lambda: True,
    "oracledb": lambda: True,
}
"""By the name of the module: whether it waits outside of the hub as it is here."""


def look_at_modules(log: Log, watch: ImportWatch) -> None:
    """Write down which of them the app has imported, and where. Without gevent, and by nobody of the app's: none."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("socket"):
        return
    for name, blocks in BLOCKING.items():
        place = watch.own_importer(name) if name in sys.modules else None
        if place is not None and blocks():
            log.say("blocking", module=name, place=place)
