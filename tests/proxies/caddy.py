"""Caddy."""

from __future__ import annotations

import re
import subprocess
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
        if self._version() < (2, 7):
            config = _in_old_words(config)
        own = _CADDY.replace("{listen}", f"127.0.0.1:{self.port}").replace("{site}", config)
        (self.folder / "Caddyfile").write_text(own)

    def command(self, descriptor: int) -> Sequence[str]:
        return [self.program, "run", "--config", "Caddyfile", "--adapter", "caddyfile"]

    def _version(self) -> tuple[int, ...]:
        said = subprocess.run([self.program, "version"], capture_output=True, text=True, check=True).stdout
        return tuple(int(number) for number in re.findall(r"\d+", said)[:2])

    def environment(self, descriptor: int) -> Mapping[str, str]:
        folder = str(self.folder)
        return {"HOME": folder, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}


def _in_old_words(config: str) -> str:
    """Say how much is buffered as Caddy did before 2.7."""
    for new, old in (("response_buffers", "buffer_responses"), ("request_buffers", "buffer_requests")):
        config = re.sub(rf"{new} unlimited", old, config)
        config = re.sub(rf"{new} (\d+)", rf"{old}\nmax_buffer_size \1", config)
    return config
