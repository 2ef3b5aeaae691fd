"""The kit's settings, with a drain time that a soak can wait for."""

from flaskstream.gunicorn_conf import *  # noqa: F403

graceful_timeout = 4
