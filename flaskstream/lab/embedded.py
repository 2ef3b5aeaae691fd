"""The embedded model of this process: started when it is first asked for, ended with the process.

gunicorn's workers inherit it from the master, and share it.
"""

from __future__ import annotations

import atexit
import functools
import os
from typing import Any

from flaskstream.lab.processes import ModelProcess
from flaskstream.settings import EMBEDDED_MODEL_URL, PREFIX

_UPSTREAM = PREFIX + "UPSTREAM"


@functools.lru_cache(maxsize=None)
def embedded_model_url() -> str:
    """Return the base URL of the model, such as `http://127.0.0.1:43210/v1`. Raises `ProcessFailed`."""
    model = ModelProcess()
    atexit.register(_close_in, os.getpid(), model)
    return model.url


def _close_in(pid: int, model: ModelProcess) -> None:
    if os.getpid() == pid:  # a worker that ends has inherited this too, and the model is not its own
        model.close()


def on_starting(server: Any) -> None:
    """Be gunicorn's hook of this name: where no upstream is configured, start the model, once for all workers.

    The workers find it as `FLASKSTREAM_UPSTREAM`. A master that replaces this one (SIGUSR2) finds it too, and starts a
    model of its own all the same, for this one ends with this process.
    """
    if os.environ.get(_UPSTREAM) in (None, "", os.environ.get(EMBEDDED_MODEL_URL)):
        os.environ[_UPSTREAM] = os.environ[EMBEDDED_MODEL_URL] = embedded_model_url()
        server.log.info("No FLASKSTREAM_UPSTREAM: the embedded model answers, at %s", embedded_model_url())
