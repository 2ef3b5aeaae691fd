"""Caddy."""

from __future__ import annotations

from typing import Mapping, Sequence

from proxies.process import ProxyProcess

_CADDY = """
{
    admin off
    auto_https off
    log {
        output stderr
        level ERROR
    }
}
http://{listen} {
    {site}
}
"""


class CaddyProcess(ProxyProcess):
    """A Caddy; the configuration is what stands in its site."""

    names = ("caddy",)
    package = "caddy"
    inherits = False

    def write(self, config: str) -> None:
        own = _CADDY.replace("{listen}", f"127.0.0.1:{self.port}").replace("{site}", config)
        (self.folder / "Caddyfile").write_text(own)

    def command(self, descriptor: int) -> Sequence[str]:
        return [self.program, "run", "--config", "Caddyfile", "--adapter", "caddyfile"]

    def environment(self, descriptor: int) -> Mapping[str, str]:
        folder = str(self.folder)
        return {"HOME": folder, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}
