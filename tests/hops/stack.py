"""Hops as values, and a stand that starts them: each one goes to the next, and the last one is the app."""

from __future__ import annotations

import math
import pathlib
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Callable, Sequence
from urllib.parse import urlencode

import pytest
from apps.hops import PROBE
from proxies import (
    ApacheProcess,
    CaddyProcess,
    HaproxyProcess,
    LighttpdProcess,
    NginxProcess,
    NodeProcess,
    ProxyProcess,
)

from flaskstream.lab.faults import AS_USUAL, FAULTS
from flaskstream.lab.gunicorn import GunicornProcess

TESTS = pathlib.Path(__file__).resolve().parent.parent
_GEVENT, _PLAIN = "python:flaskstream.gunicorn_conf", "apps/gunicorn_plain.py"


@dataclass(frozen=True)
class Server:
    """One hop.

    Attributes:
        kind: a name of `STARTERS`.
        config: for it; `{upstream}` is the URL of the hop behind, `{address}` the same without its scheme.
    """

    kind: str
    config: str = ""


def nginx(location: str = "", http: str = "") -> Server:
    """nginx with a location of these directives; stock without any."""
    return Server("nginx", http + "server { listen {listen}; location / { proxy_pass {upstream}; " + location + " } }")


NGINX_11 = 'proxy_http_version 1.1; proxy_set_header Connection "";'


def haproxy(*lines: str, defaults: Sequence[str] = ()) -> Server:
    """HAProxy with these lines in its backend and in its defaults."""
    own = "\n".join((*lines, "server app {address}"))
    return Server("haproxy", own + ("\ndefaults\n" + "\n".join(defaults) if defaults else ""))


def caddy(inside: str = "", site: str = "") -> Server:
    """Caddy with these lines in its `reverse_proxy` and beside it."""
    return Server("caddy", site + "\nreverse_proxy {address} {\n" + inside + "\n}")


def apache(*lines: str, options: str = "") -> Server:
    """Apache with these lines beside its `ProxyPass`."""
    return Server("apache", "\n".join((f"ProxyPass / {{upstream}}/ {options}", *lines)))


def lighttpd(*lines: str, backend: str = "") -> Server:
    """lighttpd with these lines beside its `proxy.server`, and more about its backend."""
    host = f'"host" => "{{host}}", "port" => {{upstream_port}}{backend}'
    return Server("lighttpd", "\n".join((f'proxy.server = ( "" => (( {host} )) )', *lines)))


def node(name: str) -> Server:
    """A proxy of tests/node/proxy.mjs."""
    return Server("node", name + " {upstream}")


def app(wrapper: str = "", *arguments: str) -> Server:
    """The probe in gunicorn with the kit's settings; with arguments, in gunicorn as it comes."""
    return Server("gunicorn", " ".join((wrapper or "-", *arguments)))


CHAT = "/stream/chat?q=hello"
"""An ordinary endpoint of the demonstration."""


def lab(fault: str, tokens: int = 40, interval_ms: int = 50) -> Server:
    """The broken mode with this mistake alone, or "none", under the conditions under which it shows."""
    scenario = FAULTS[fault].scenario if fault in FAULTS else AS_USUAL
    needed_ms = math.ceil(scenario.seconds * 1000 / tokens)
    own = dict(pair.split("=") for pair in filter(None, scenario.script.split("&")))
    script = {"tokens": tokens, "interval_ms": max(interval_ms, needed_ms), **own}
    return Server("lab", f"{fault} tick?{urlencode(script)}")


def waitress(wrapper: str = "", send_bytes: int = 1, threads: int = 32) -> Server:
    return Server("waitress", f"{wrapper or '-'} {send_bytes} {threads}")


class _Waitress(ProxyProcess):
    names = ("python3", "python")

    def write(self, config: str) -> None:
        pytest.importorskip("waitress", reason="waitress is not installed")
        wrapper, *rest = config.split()
        self._arguments = ["" if wrapper == "-" else wrapper, *rest]

    def command(self, descriptor: int) -> Sequence[str]:
        return [sys.executable, str(TESTS / "hops" / "waitress_app.py"), str(descriptor), *self._arguments]

    def environment(self, descriptor: int) -> dict[str, str]:
        return {"PYTHONPATH": f"{TESTS}:{TESTS.parent}"}


_NEEDS = {"br": "brotli", "br-flushed": "brotli", "zstd": "zstandard"}


def _gunicorn(config: str) -> GunicornProcess:
    wrapper, *arguments = config.split()
    if wrapper in _NEEDS:
        pytest.importorskip(_NEEDS[wrapper])
    name = "" if wrapper == "-" else wrapper
    process = GunicornProcess(
        {"UPSTREAM": "http://127.0.0.1:9/v1"},  # nobody asks it: it keeps the embedded model away
        arguments,
        f"apps.hops:create_app({name!r})",
        _PLAIN if arguments else _GEVENT,
        str(TESTS),
    )
    return _answering(process)


def _lab(config: str) -> GunicornProcess:
    fault, model = config.split()
    return _answering(GunicornProcess({"faults": fault, "model": model}))


def _answering(process: GunicornProcess) -> GunicornProcess:
    try:
        process.wait_until_it_answers()
    except BaseException:
        process.kill()
        raise
    return process


STARTERS: dict[str, Callable[[str], ProxyProcess | GunicornProcess]] = {
    "nginx": NginxProcess,
    "haproxy": HaproxyProcess,
    "caddy": CaddyProcess,
    "apache": ApacheProcess,
    "lighttpd": LighttpdProcess,
    "node": NodeProcess,
    "waitress": _Waitress,
    "gunicorn": _gunicorn,
    "lab": _lab,
}


class NotHere(Exception):
    """A program, or a package, cannot be had here. Says which."""


class Stand:
    """Starts servers, each distinct one once, and ends them all with its block."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._started: dict[tuple[Server, ...], str] = {}
        self._lock = threading.Lock()

    def urls(self, servers: Sequence[Server], endpoint: str = "") -> list[str]:
        """Return the URL of the probe through each of these, outermost first; starts what does not run yet.

        Args:
            servers: the hops; the last one is the app.
            endpoint: the path of an ordinary endpoint, whose URL through all of them then comes first; "": none.

        Raises:
            NotHere: a program cannot be had.
        """
        with self._lock:
            try:
                hops = [self._start(tuple(servers[n:])) for n in range(len(servers))]
            except pytest.skip.Exception as error:
                raise NotHere(str(error)) from None
        ordinary = [hops[0] + endpoint] if endpoint else []
        return [*ordinary, *(hop + PROBE for hop in hops)]

    def _start(self, servers: tuple[Server, ...]) -> str:
        if servers not in self._started:
            server, *behind = servers
            config = server.config
            if behind:
                upstream = self._start(tuple(behind))
                address = upstream.partition("://")[2]
                host, _, port = address.partition(":")
                config = config.replace("{upstream}", upstream).replace("{address}", address)
                config = config.replace("{host}", host).replace("{upstream_port}", port)
            process = STARTERS[server.kind](config)
            self._open.callback(process.close)
            self._started[servers] = process.url
        return self._started[servers]

    def __enter__(self) -> Stand:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
