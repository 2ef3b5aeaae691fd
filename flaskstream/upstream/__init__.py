"""The model API behind us: ask it, read its answer as it comes, know its failures.

`client` has `Upstream` and opens a request, `answer` is what comes of it, `body` reads what is there, `pool` keeps the
connections, `errors` translates what the HTTP libraries raise, `retries` tells what may be asked again.
"""

from flaskstream.upstream.client import Upstream

__all__ = ["Upstream"]
