"""Run the load generator against a running server, as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Mapping, Sequence

from bench.load import Measured
from bench.processes import Failed
from bench.servers import Server
from flaskstream.lab.processes import PACKAGE_ROOT


def body(**wanted: Any) -> str:
    """Return the body of a request for this answer of the upstream: the fields of `bench.paced_upstream.Wanted`."""
    model = "bench?" + "&".join(f"{name}={value}" for name, value in wanted.items())
    return json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "hello"}]})


def load(url: str, pids: Mapping[str, int], arguments: Sequence[str]) -> Measured:
    """Measure one address.

    Args:
        url: what is asked.
        pids: whose processor time is taken, by name.
        arguments: for `bench.load`.

    Raises:
        Failed: the load generator ended without a result.
    """
    named = [f"--pid={name}={pid}" for name, pid in pids.items()]
    done = subprocess.run(
        [sys.executable, "-m", "bench.load", url, *named, *arguments],
        capture_output=True,
        cwd=PACKAGE_ROOT,
        check=False,
    )
    if done.returncode:
        raise Failed(f"the load generator failed: {done.stderr.decode('utf-8', 'replace')[-2000:]}")
    return Measured(**json.loads(done.stdout))


def load_server(server: Server, upstream_pid: int, wanted: Mapping[str, Any], arguments: Sequence[str]) -> Measured:
    """Measure a server whose answers are these of the upstream; see `load` and `body`."""
    pids = {"server": server.pid, "upstream": upstream_pid}
    return load(server.url, pids, [f"--body={body(**wanted)}", *arguments])
