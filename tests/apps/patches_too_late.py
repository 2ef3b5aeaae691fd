"""The same with the kit's config, which refuses it."""

import requests  # noqa: F401

from flaskstream.gunicorn_conf import worker_class  # noqa: F401
