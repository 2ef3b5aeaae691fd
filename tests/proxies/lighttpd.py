"""lighttpd."""

from __future__ import annotations

import pathlib
from typing import Sequence

import pytest

from proxies.process import ProxyProcess

_LIGHTTPD = """
server.modules = ("mod_deflate", "mod_setenv", "mod_proxy")
server.document-root = "{folder}"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "/dev/stderr"
"""
_DEFLATE = pathlib.Path("/usr/lib/lighttpd/mod_deflate.so")


class LighttpdProcess(ProxyProcess):
    """A lighttpd; the configuration follows what every one here needs."""

    names = ("lighttpd",)
    package = "lighttpd-mod-deflate"
    inherits = False

    def write(self, config: str) -> None:
        if not _DEFLATE.exists():  # Debian has it in a package of its own
            pytest.skip(f"needs the compressor of lighttpd (on Debian: apt-get install {self.package})")
        own = _LIGHTTPD.format(folder=self.folder, port=self.port)
        (self.folder / "lighttpd.conf").write_text(f"{own}{config}\n")

    def command(self, descriptor: int) -> Sequence[str]:
        return [self.program, "-D", "-f", f"{self.folder}/lighttpd.conf"]
