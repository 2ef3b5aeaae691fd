"""Between the upstream and the wire.

`relay` asks and hands on, `answers` makes tokens or whole events of the bytes, `follower` knows whether the end was
told.
"""

from flaskstream.relay.relay import TRAILING_SECONDS, Relay

__all__ = ["TRAILING_SECONDS", "Relay"]
