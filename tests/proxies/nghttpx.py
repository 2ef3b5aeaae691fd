"""nghttpx, which speaks HTTP/2 in the clear as well."""

from __future__ import annotations

from typing import Sequence

from proxies.process import ProxyProcess


class NghttpxProcess(ProxyProcess):
    """An nghttpx; the configuration is its arguments."""

    names = ("nghttpx",)
    package = "nghttp2-proxy"
    inherits = False

    def write(self, config: str) -> None:
        self._arguments = config.split()

    def command(self, descriptor: int) -> Sequence[str]:
        own = ("--conf=/dev/null", "--workers=1", "--errorlog-file=/dev/stderr", "--log-level=WARN")
        return [self.program, *own, f"--frontend=127.0.0.1,{self.port};no-tls", *self._arguments]
