"""What of a store's URL others may see."""

from __future__ import annotations


def without_secrets(url: str) -> str:
    """Return a URL for messages and logs: without user, password and parameters."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + rest.rpartition("@")[2].partition("?")[0] if separator else url
