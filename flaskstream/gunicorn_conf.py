"""The gunicorn settings under which streams stream: `gunicorn -c python:flaskstream.gunicorn_conf yourapp:app`.

gunicorn reads the lower-case names below. What is not here keeps gunicorn's default, its own variables included:
`PORT` for the address, `WEB_CONCURRENCY` for the number of workers. The command line wins over this file.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from flaskstream.errors import InvalidSetting
from flaskstream.settings import PREFIX, Settings, unread


def _refuse_late_patching() -> None:
    """Refuse to patch after someone took hold of the unpatched `ssl`: TLS would fail later, and only TLS.

    Raises:
        RuntimeError: names the modules that were imported too early.
    """
    ssl = sys.modules.get("ssl")
    original = getattr(ssl, "SSLContext", None)
    if original is None or original.__module__.startswith("gevent"):
        return
    early = sorted(
        name
        for name, module in list(sys.modules.items())
        if name != "ssl"
        and not name.startswith("gevent")
        and any(_holds(value, original) for value in list(vars(module).values()) if isinstance(value, type))
    )
    if early:
        raise RuntimeError(
            f"gevent must patch before anything uses ssl, but {', '.join(early)} did already (imported above the line"
            " that imports flaskstream.gunicorn_conf, or by what started gunicorn). Import it later: in the app"
        )


def _holds(value: type, original: type) -> bool:
    return value is original or (value.__module__ != "ssl" and issubclass(value, original))


def _patch() -> None:
    from gevent import monkey

    if not monkey.is_module_patched("ssl"):
        _refuse_late_patching()
        monkey.patch_all()
    _let_the_master_halt()


def _let_the_master_halt() -> None:
    """Have gevent hand gunicorn's `HaltServer` on to the main greenlet.

    Older gunicorns, 23 among them, raise it in their handler of SIGCHLD, which runs in a greenlet once gevent has
    patched. There it is printed and forgotten, and a master whose app cannot be loaded goes on without a worker.
    """
    from gevent.hub import Hub
    from gunicorn.errors import HaltServer

    Hub.SYSTEM_ERROR += (HaltServer,)
    Hub.NOT_ERROR += (HaltServer,)  # it is logged by gunicorn


def _share_memory() -> None:
    """Make the memory in which the workers, forked from here, write what `/stats` sums up and `/probe` is asked for."""
    from flaskstream.probe.records import PROBE_RECORDS
    from flaskstream.stats import STATS

    STATS.share()
    PROBE_RECORDS.share()


try:
    _settings = Settings.from_environment()
    if _settings.mode == "broken":
        from flaskstream.lab.faults import gunicorn_settings_of

        _broken = gunicorn_settings_of(_settings.faults)
except InvalidSetting as error:
    raise SystemExit(f"Error: {error}") from None  # and no traceback, whoever reads this file

# "gevent": one greenlet for each open stream; thousands of them wait in one worker while a few are written to.
# "sync", in the broken mode, serves one stream at a time.
worker_class = "gevent" if _settings.mode == "fixed" else _broken["worker_class"]

if worker_class == "gevent":
    _patch()

_share_memory()

# Streams (and other requests) that one worker holds open at once; the next ones wait in the backlog.
worker_connections = 1000

# Seconds without a sign of life after which a worker is killed. A gevent worker gives one each second however long its
# streams are. A sync worker gives none while it sends: every longer stream is cut.
timeout = 30 if _settings.mode == "fixed" else _broken["timeout"]

# Seconds that a worker gets to end when it is told to stop, before what is still open is cut. Open streams may finish
# for a quarter of it, and end with `event: error` (shutting_down) then.
graceful_timeout = 30 if _settings.mode == "fixed" else _broken["timeout"]

# Requests after which a worker is replaced; 0: never. Its open streams end as at a deploy.
max_requests = 0

# Seconds for which an idle connection is kept for the browser's next request. A worker that stops waits for as long.
keepalive = 2

# gunicorn 25 on opens a control socket in the home directory: two servers side by side would fight for it.
control_socket_disable = True

# The sign of life is a file that is touched each second: on a disk that stalls it stalls the worker.
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

# Load the app before the workers are forked. In the broken mode their start must not count against a short timeout.
preload_app = worker_class == "sync"


def post_worker_init(worker: Any) -> None:
    """Have this worker counted, its open streams end in time when it stops, and the kit's log look like gunicorn's.

    Its limit of descriptors is raised as far as its connections need it, and as the hard limit lets it.
    """
    from flaskstream.serving.deploy import watch_worker
    from flaskstream.serving.room import make_room
    from flaskstream.stats import STATS

    STATS.join()
    watch_worker(worker)
    _log_as_gunicorn_does(worker)
    make_room(worker)
    for variable in unread(sys.modules):
        logging.getLogger(__name__).warning(
            "%s: only the app of wsgi.py reads it, and this is another one: give create_blueprint the argument %s",
            *(variable, variable[len(PREFIX) :].lower()),
        )


def worker_int(worker: Any) -> None:
    """Have the answers end now, when gunicorn is told to end quickly: by Ctrl-C, for example."""
    from flaskstream.serving.deploy import hurry

    hurry()


def worker_exit(server: Any, worker: Any) -> None:
    """Have a worker whose last client has gone produce to their end the answers that others can read elsewhere."""
    from flaskstream.serving.deploy import wait_for_generations

    wait_for_generations(worker)


def _log_as_gunicorn_does(worker: Any) -> None:
    """Unless the app has set up logging, in which case that is where the kit's lines go."""
    log = logging.getLogger("flaskstream")
    if not log.hasHandlers():
        log.handlers = list(worker.log.error_log.handlers)
        log.setLevel(worker.log.error_log.level)
