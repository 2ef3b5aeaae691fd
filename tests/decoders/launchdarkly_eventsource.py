"""launchdarkly-eventsource, connected to our pieces in place of a server."""

from __future__ import annotations

from typing import Any, Iterator

from decoders.reading import Told


def read(pieces: list[bytes]) -> Iterator[Told]:
    from ld_eventsource import SSEClient
    from ld_eventsource.config import ConnectionClient, ConnectionResult, ConnectStrategy

    class Connection(ConnectionClient):
        def connect(self, last_event_id: Any) -> Any:
            return ConnectionResult(iter(pieces), None)

    class Pieces(ConnectStrategy):
        def create_client(self, logger: Any) -> Any:
            return Connection()

    with SSEClient(Pieces()) as client:
        for event in client.events:
            yield event.event, event.data, event.last_event_id, None
