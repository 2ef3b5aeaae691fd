"""gunicorn with threads in place of greenlets, beside `flaskstream.gunicorn_conf`."""

from __future__ import annotations

from typing import Any

from flaskstream.serving.deploy import watch_worker

worker_class = "gthread"
threads = 64
control_socket_disable = True  # two servers side by side would fight for it


def post_worker_init(worker: Any) -> None:
    watch_worker(worker)
