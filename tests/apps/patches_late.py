"""A config for gunicorn that takes hold of ssl before its worker patches."""

import requests  # noqa: F401

worker_class = "gevent"
control_socket_disable = True
