"""Apache."""

from __future__ import annotations

import os
import pathlib
from typing import Sequence

import pytest

from proxies.process import ProxyProcess

MODULE_FOLDERS = ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules")

MODULES = (
    "mpm_event",
    "authz_core",
    "env",
    "setenvif",
    "headers",
    "filter",
    "proxy",
    "proxy_http",
    "deflate",
    "brotli",
    "buffer",
    "ext_filter",
    "ratelimit",
    "sed",
    "substitute",
    "include",
    "cache",
    "cache_disk",
)
"""What the configurations of the tests use; one that is not there is left out, and missed by whoever needs it."""

_APACHE = """
ServerName 127.0.0.1
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog /dev/stderr
LogLevel warn
Listen {listen}
{user}
StartServers 1
ServerLimit 1
ThreadsPerChild 64
MaxRequestWorkers 64
{modules}
{config}
"""


class ApacheProcess(ProxyProcess):
    """An Apache; the configuration stands in its server."""

    names = ("apache2", "httpd")
    package = "apache2"
    inherits = False

    def write(self, config: str) -> None:
        self.folder.chmod(0o777)  # its children are another user's
        (self.folder / "httpd.conf").write_text(
            _APACHE.format(
                folder=self.folder,
                listen=f"127.0.0.1:{self.port}",
                user="User nobody\nGroup #65534" if os.geteuid() == 0 else "",
                modules=_load_modules(),
                config=config,
            )
        )

    def command(self, descriptor: int) -> Sequence[str]:
        return [self.program, "-DFOREGROUND", "-f", str(self.folder / "httpd.conf")]


def _load_modules() -> str:
    folder = next((pathlib.Path(name) for name in MODULE_FOLDERS if os.path.isdir(name)), None)
    if folder is None:
        pytest.skip(f"needs Apache's modules in one of {', '.join(MODULE_FOLDERS)}")
    files = ((name, folder / f"mod_{name}.so") for name in MODULES)
    return "\n".join(f"LoadModule {name}_module {file}" for name, file in files if file.exists())
