"""uWSGI as a child process, where it is installed: it is built from source, and so needs a C compiler."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from flaskstream.lab.processes import environment

TESTS = os.path.dirname(os.path.abspath(__file__))

THREADS = ("--threads", "8")
GREENLETS = ("--gevent", "50", "--gevent-monkey-patch")
ROUTER = ("--http-auto-chunked", "--http-keepalive=1")
"""Its own HTTP router, which stands between the client and the process that has the app, and sends chunks."""

_ALWAYS = ("--home", sys.prefix, "--pythonpath", TESTS, "--master", "--need-app", "--disable-logging")


class UwsgiProcess:
    """A uWSGI on a free port of 127.0.0.1, from construction until `close()`.

    Args:
        arguments: for uWSGI; with `ROUTER` among them, clients talk to its router.
        settings: variables of the environment.
        module: what it serves.
    """

    def __init__(self, *arguments, settings=None, module="apps.ticks:app"):
        program = pathlib.Path(sys.executable).with_name("uwsgi")
        if not program.exists():
            pytest.skip("uWSGI is not installed: it is built from source, with a C compiler")
        front = "--http" if ROUTER[0] in arguments else "--http-socket"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._process = subprocess.Popen(
                [program, front, f"fd://{listener.fileno()}", "--module", module, *_ALWAYS, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env={**environment(), **(settings or {})},
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def errors(self):
        """What it wrote so far: its log."""
        return os.pread(self._errors.fileno(), os.fstat(self._errors.fileno()).st_size, 0).decode("utf-8", "replace")

    def close(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
