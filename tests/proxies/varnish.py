"""Varnish."""

from __future__ import annotations

from typing import Sequence

from proxies.process import ProxyProcess


class VarnishProcess(ProxyProcess):
    """A Varnish; the configuration is its VCL."""

    names = ("varnishd",)
    package = "varnish"
    inherits = False

    def write(self, config: str) -> None:
        (self.folder / "default.vcl").write_text(config)

    def command(self, descriptor: int) -> Sequence[str]:
        where = ("-f", f"{self.folder}/default.vcl", "-n", f"{self.folder}/run", "-a", f"127.0.0.1:{self.port}")
        return [self.program, "-F", "-j", "none", "-s", "malloc,16m", "-T", "none", *where]
