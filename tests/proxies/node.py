"""Proxies of Node, which are programs that somebody wrote: tests/node/proxy.mjs has them by name."""

from __future__ import annotations

import pathlib
from typing import Sequence

import pytest

from proxies.process import ProxyProcess

NODE = pathlib.Path(__file__).resolve().parent.parent / "node"


class NodeProcess(ProxyProcess):
    """A proxy of Node; the configuration is its name and the URL it goes to."""

    names = ("node",)
    package = "nodejs"

    def write(self, config: str) -> None:
        if not (NODE / "node_modules" / "http-proxy").is_dir():
            pytest.skip("needs the npm packages (npm ci in tests/node)")
        self._arguments = config.split()

    def command(self, descriptor: int) -> Sequence[str]:
        return [self.program, str(NODE / "proxy.mjs"), str(descriptor), *self._arguments]
