"""waitress on a socket that is listening already: `python waitress_app.py DESCRIPTOR WRAPPER SEND_BYTES THREADS`."""

from __future__ import annotations

import socket
import sys

import waitress
from apps.hops import create_app

descriptor, wrapper, send_bytes, threads = sys.argv[1:]
listener = socket.socket(fileno=int(descriptor))
waitress.serve(create_app(wrapper), sockets=[listener], send_bytes=int(send_bytes), threads=int(threads))
