"""httpx-sse, on a response of httpx that comes in our pieces."""

from __future__ import annotations

from typing import Iterator

from decoders.reading import Told


def read(pieces: list[bytes]) -> Iterator[Told]:
    import httpx
    import httpx_sse

    response = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=iter(pieces))
    for event in httpx_sse.EventSource(response).iter_sse():
        yield event.event, event.data, event.id, event.retry
