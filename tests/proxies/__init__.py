"""Real proxies in front of a server of the tests, a file for each: each has a folder of its own, and surely ends."""

from proxies.apache import ApacheProcess
from proxies.caddy import CaddyProcess
from proxies.express import ExpressProcess
from proxies.haproxy import HaproxyProcess
from proxies.lighttpd import LighttpdProcess
from proxies.nghttpx import NghttpxProcess
from proxies.nginx import NginxProcess
from proxies.node import NodeProcess
from proxies.process import ProxyProcess
from proxies.varnish import VarnishProcess

__all__ = [
    "ApacheProcess",
    "CaddyProcess",
    "ExpressProcess",
    "HaproxyProcess",
    "LighttpdProcess",
    "NghttpxProcess",
    "NginxProcess",
    "NodeProcess",
    "ProxyProcess",
    "VarnishProcess",
]
