"""HAProxy."""

from __future__ import annotations

from typing import Sequence

from proxies.process import ProxyProcess

_HAPROXY = """
global
    maxconn 256
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend here
    bind fd@{descriptor}
    default_backend there
backend there
"""
"""What every HAProxy here needs; lines of the `defaults` go before its `frontend`, those of the backend last."""


class HaproxyProcess(ProxyProcess):
    """A HAProxy; the configuration is the lines of its backend, those of its frontend after a line `frontend`, and
    after a line `defaults` those of its `defaults`."""

    names = ("haproxy",)
    package = "haproxy"

    def write(self, config: str) -> None:
        self._config = config

    def command(self, descriptor: int) -> Sequence[str]:
        backend, _, defaults = self._config.partition("defaults\n")
        backend, _, frontend = backend.partition("frontend\n")
        own = _HAPROXY.replace("frontend here", f"{defaults}\nfrontend here\n{frontend}")
        own = own.replace("{descriptor}", str(descriptor))
        (self.folder / "haproxy.cfg").write_text(f"{own}{backend}\n")
        return [self.program, "-db", "-f", str(self.folder / "haproxy.cfg")]
