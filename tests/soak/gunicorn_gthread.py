"""Threads in place of greenlets, with the same drain time."""

from __future__ import annotations

from typing import Any

from flaskstream.serving.deploy import watch_worker

worker_class = "gthread"
threads = 64
graceful_timeout = 4
control_socket_disable = True


def post_worker_init(worker: Any) -> None:
    watch_worker(worker)
