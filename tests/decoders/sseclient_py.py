"""sseclient-py, on any iterable of bytes."""

from __future__ import annotations

from typing import Iterator

from decoders.reading import Told


def read(pieces: list[bytes]) -> Iterator[Told]:
    import sseclient

    for event in sseclient.SSEClient(pieces).events():
        yield event.event, event.data, event.id, event.retry
