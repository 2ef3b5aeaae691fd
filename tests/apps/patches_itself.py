"""An app that has gevent patch by itself, and after what it should come before."""

import requests  # noqa: F401 - early
from gevent import monkey

monkey.patch_all()

from checked import healthy  # noqa: E402

app = healthy()
