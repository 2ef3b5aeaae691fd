"""nginx."""

from __future__ import annotations

import os
from typing import Mapping, Sequence

from proxies.process import ProxyProcess

_NGINX = """
daemon off;
worker_processes 1;
{user}
pid nginx.pid;
error_log stderr notice;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    {http}
}}
"""
"""What every nginx here needs, to run in the foreground, as any user, and to write into its own folder only."""


class NginxProcess(ProxyProcess):
    """An nginx; the configuration is what stands in its `http` block."""

    names = ("nginx",)
    package = "nginx"

    def write(self, config: str) -> None:
        user = "user root;" if os.geteuid() == 0 else ""  # its workers have to reach the folder, too
        (self.folder / "nginx.conf").write_text(_NGINX.format(user=user, http=config))

    def command(self, descriptor: int) -> Sequence[str]:
        return [self.program, "-p", f"{self.folder}/", "-c", "nginx.conf", "-e", "stderr"]

    def environment(self, descriptor: int) -> Mapping[str, str]:
        return {"NGINX": f"{descriptor};"}  # how an nginx hands its sockets to the one that replaces it
