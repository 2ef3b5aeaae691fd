"""Express, with what stands in its file."""

from __future__ import annotations

from typing import Sequence

import pytest

from proxies.node import NODE
from proxies.process import ProxyProcess

_EXPRESS = """
import compression from "compression";
import express from "express";
import { createProxyMiddleware } from "http-proxy-middleware";
const app = express();
{config}
app.listen({ fd: Number(process.argv[2]) });
"""


class ExpressProcess(ProxyProcess):
    """An Express; the configuration is what is done with its `app`."""

    names = ("node",)
    package = "nodejs"

    def write(self, config: str) -> None:
        if not (NODE / "node_modules" / "http-proxy-middleware").is_dir():
            pytest.skip("needs the npm packages (npm ci in tests/node)")
        (self.folder / "node_modules").symlink_to(NODE / "node_modules")
        (self.folder / "proxy.mjs").write_text(_EXPRESS.replace("{config}", config))

    def command(self, descriptor: int) -> Sequence[str]:
        return [self.program, str(self.folder / "proxy.mjs"), str(descriptor)]
