"""The embedded model of this process: started when it is first asked for, ended with the process.

gunicorn's workers inherit the answer from the master, and share its model.
"""

from __future__ import annotations

import atexit
import functools
import os

from flaskstream.lab.processes import ModelProcess


@functools.lru_cache(maxsize=None)
def embedded_model_url() -> str:
    """Return the base URL of the model, such as `http://127.0.0.1:43210/v1`. Raises `ProcessFailed`."""
    model = ModelProcess()
    atexit.register(_close_in, os.getpid(), model)
    return model.url


def _close_in(pid: int, model: ModelProcess) -> None:
    if os.getpid() == pid:  # a worker that ends has inherited this too, and the model is not its own
        model.close()
