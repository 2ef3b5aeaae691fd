"""Hosts with a gunicorn each: in network namespaces of their own where root may make them, else on loopback addresses.

A namespace has its own interfaces and ports, and a cable to the machine of the test: what its processes share with
others goes over the network. What is made here is taken away by `close`, whatever has happened meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, Iterator, Sequence

from proxies.process import PROGRAM_FOLDERS
from redis_server import free_port

from flaskstream.lab.processes import environment
from flaskstream.settings import PREFIX

TESTS = os.path.dirname(os.path.abspath(__file__))

_NETWORKS = 32768
"""Of four addresses each, in 198.18.0.0/15, which RFC 2544 sets aside for tests."""
_INSIDE = "eth0"


class NoNamespaces(Exception):
    """There can be none here; says why."""


@dataclass(frozen=True)
class Place:
    """Where a host is.

    Attributes:
        enter: the command that runs another one there; empty: it runs as it is.
        address: of the host.
        port: that is free there.
        outside: the address at which it finds the machine of the test.
    """

    enter: tuple[str, ...]
    address: str
    port: int
    outside: str


@contextlib.contextmanager
def places(count: int) -> Iterator[tuple[Sequence[Place], str]]:
    """Give so many places, and why they are no namespaces: "" where they are."""
    with contextlib.ExitStack() as stack:
        try:
            made = [stack.enter_context(_namespace(number)) for number in range(count)]
        except NoNamespaces as why:
            yield [Place((), f"127.0.0.{number + 2}", free_port(), "127.0.0.1") for number in range(count)], str(why)
        else:
            yield made, ""


@contextlib.contextmanager
def _namespace(number: int) -> Iterator[Place]:
    name = f"fs{os.getpid()}-{number}"
    first = (os.getpid() * 8 + number) % _NETWORKS * 4
    outside, inside = (
        f"198.{18 + (first + one) // 65536}.{(first + one) // 256 % 256}.{(first + one) % 256}" for one in (1, 2)
    )
    with contextlib.ExitStack() as stack:
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "delete", name)  # and with it the cable
        _ip("link", "add", name, "type", "veth", "peer", "name", _INSIDE, "netns", name)
        _ip("address", "add", f"{outside}/30", "dev", name)
        _ip("link", "set", name, "up")
        _ip("-n", name, "address", "add", f"{inside}/30", "dev", _INSIDE)
        _ip("-n", name, "link", "set", _INSIDE, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        yield Place((_ip_program(), "netns", "exec", name), inside, 8000, outside)


def _ip(*arguments: str) -> None:
    done = subprocess.run([_ip_program(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise NoNamespaces(f"ip {' '.join(arguments)}: {done.stdout.decode().strip()}")


def _ip_program() -> str:
    found = shutil.which("ip", path=os.pathsep.join((*PROGRAM_FOLDERS, "/sbin")))
    if found is None:
        raise NoNamespaces("there is no ip (on Debian: apt-get install iproute2)")
    return found


class Host:
    """A gunicorn with `apps.recorded` at a place, from `start` until `close`; it may be started again.

    Args:
        place: where.
        upstream: the URL of the model, as it is seen from there.
        store: the URL of the store, likewise.
        options: those of `create_blueprint`.
    """

    def __init__(self, place: Place, upstream: str, store: str, **options: Any) -> None:
        self.address = f"{place.address}:{place.port}"
        told = {
            "UPSTREAM": upstream,
            "MODEL": json.dumps({"store": store, "status_grace": 2.0, **options}),
            "STORE": "",
        }
        plain = {name: value for name, value in environment().items() if not name.startswith(PREFIX)}
        self._environment = {**plain, **{PREFIX + name: value for name, value in told.items()}}
        self._command = (
            *place.enter,
            *(sys.executable, "-m", "flaskstream.lab.leash", "gunicorn", "-c", "python:flaskstream.gunicorn_conf"),
            *("--bind", self.address, "--workers", "2", "apps.recorded:create_app()"),
        )
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it must not run."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,  # with its end the gunicorn ends
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
            cwd=TESTS,
            start_new_session=True,
        )

    def hit(self, name: signal.Signals) -> None:
        """Give it a signal: SIGKILL to all its processes at once, as when a machine fails; any other to its master."""
        assert self._process is not None
        (os.killpg if name == signal.SIGKILL else os.kill)(self._process.pid, name)

    def has_ended(self) -> bool:
        """Tell whether it has; then it may be started again."""
        assert self._process is not None and self._process.stdin is not None
        if self._process.poll() is None:
            return False
        self._process.stdin.close()
        return True

    def errors(self) -> str:
        """What all its gunicorns wrote so far."""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode("utf-8", "replace")

    def close(self) -> None:
        """End it at once, with its workers."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._log.close()
