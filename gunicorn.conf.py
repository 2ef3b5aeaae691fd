"""gunicorn -c gunicorn.conf.py wsgi:app

The settings, each with its unit and reason, are in flaskstream/gunicorn_conf.py. Reading them must stay the first
thing that happens here: it has gevent patch the standard library before anything imports ssl.
"""

from flaskstream.gunicorn_conf import (  # noqa: F401 - gunicorn looks for these names
    control_socket_disable,
    graceful_timeout,
    keepalive,
    max_requests,
    post_worker_init,
    preload_app,
    timeout,
    worker_class,
    worker_connections,
    worker_exit,
    worker_int,
    worker_tmp_dir,
)

# The demonstration has a model of its own while FLASKSTREAM_UPSTREAM is unset; your app needs no such line.
from flaskstream.lab.embedded import on_starting  # noqa: F401

# Your own settings go here, and win over the ones above. For example:
# workers = 4  # processes; or set WEB_CONCURRENCY
