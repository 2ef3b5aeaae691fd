"""On paper: how many workers and machines so many streams need, and of what how much."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

PORTS = 28_232
"""Of Linux, for connections to one address and port: 32768 to 60999, `net.ipv4.ip_local_port_range`."""

TIME_WAIT = 60.0
"""Seconds for which a port is not used again for the same address, by the side that closed first."""

SOCKETS = 2
"""Of a stream: the client's and the upstream's. Measured: 2.00, with a store as well."""

OTHER_DESCRIPTORS = 14 + 20 + 100
"""Of a worker: its own, those of a store, and connections to the upstream that are kept, at most a hundred."""

PACKET = 66
"""Bytes of the headers of Ethernet, IP and TCP; a token is a packet of its own."""

CHUNK = 6
"""Bytes that HTTP's chunked coding adds to a token of common size."""

FULL = 0.95
"""Of a core: a worker with more streams than fill so much of it takes no more (`max_streams`)."""

SPREAD_AFTER_LOSS = 0.5
"""Of `retry`: within so long the clients of a machine that was lost come back, after one whole `retry`."""


@dataclass(frozen=True)
class Site:
    """What is to be carried, and by what machines.

    Attributes:
        streams: open at once.
        rate: tokens a second of each.
        seconds: how long an answer is, in the mean.
        event_bytes: of a token on the wire.
        cost_us: processor time of a token.
        start_us: of a stream's beginning and end.
        memory_kb: of a stream, in its worker and in the kernel.
        worker_mb: of a worker without streams.
        headroom: the share of a core that is used in quiet times; the rest is for what comes.
        cores, memory_gb: of a machine; the kit is given all cores, and three quarters of the memory.
        spare: machines that may be missing at the same time.
        retry_ms: the option `retry`.
        redis_us: Redis's own processor time for a token that is kept.
    """

    streams: int
    rate: float = 20.0
    seconds: float = 45.0
    event_bytes: int = 220
    cost_us: float = 30.0
    start_us: float = 1400.0
    memory_kb: float = 70.0
    worker_mb: float = 50.0
    headroom: float = 0.7
    cores: int = 8
    memory_gb: float = 16.0
    spare: int = 1
    retry_ms: int = 3000
    redis_us: float = 25.0

    def __post_init__(self) -> None:
        """Raise `ValueError`: a value is out of bounds; says which, and what was expected."""
        for one in fields(self):
            value = getattr(self, one.name)
            if not math.isfinite(value) or value < 0 or (value == 0 and one.name not in _MAY_BE_0):
                raise ValueError(f"{option_name(one.name)}: expected a number above 0, got {value}")
        if self.headroom > 1:
            raise ValueError(f"--headroom: expected a share of a core, up to 1, got {self.headroom:g}")


_MAY_BE_0 = ("start_us", "worker_mb", "spare", "redis_us")


@dataclass(frozen=True)
class Size:
    """What it takes.

    Attributes:
        streams_per_worker: that a worker carries in quiet times.
        workers_needed: for all streams.
        workers_per_machine: one for each core, or as many as the memory has room for.
        machines: with those that may be missing.
        streams_per_machine: with all machines there.
        streams_per_machine_at_worst: with as many missing as may be.
        max_streams: of a worker; more would fill its core.
        worker_connections: of a worker; above `max_streams`, so that one stream too many is told 503 and does not wait.
        descriptors: `LimitNOFILE`, for a worker.
        memory_gb: of a machine, at worst.
        ports: of a machine to the upstream, at worst.
        ports_if_closed_here: the same, if no connection is used again and all are closed by the relay.
        upstream_addresses: so many does the upstream need then.
        mbit: of a machine at worst, to its clients; as much comes from the upstream.
        starts_per_second: in quiet times, on all machines.
        starts_after_loss: the same, while the clients of one lost machine come back.
        proxy_connections: `worker_connections` of an nginx in front of all, in the sum of its workers.
        redis_records: tokens a second to be kept.
        redis_cores: that Redis needs for them; one Redis has one.
    """

    streams_per_worker: int
    workers_needed: int
    workers_per_machine: int
    machines: int
    streams_per_machine: int
    streams_per_machine_at_worst: int
    max_streams: int
    worker_connections: int
    descriptors: int
    memory_gb: float
    ports: int
    ports_if_closed_here: int
    upstream_addresses: int
    mbit: float
    starts_per_second: float
    starts_after_loss: float
    proxy_connections: int
    redis_records: float
    redis_cores: float


def streams_of_a_core(site: Site, share: float) -> int:
    """Return how many streams this share of a core carries. Raises `ValueError`: not one."""
    each = site.rate * site.cost_us + site.start_us / site.seconds
    found = math.floor(share * 1e6 / each)
    if not found:
        raise ValueError(f"expected a stream that a worker can carry, got one that needs {each / 1e6:.2f} of a core")
    return found


def size(site: Site) -> Size:
    """Return what these streams need. Raises `ValueError`: a machine cannot carry one."""
    per_worker = streams_of_a_core(site, site.headroom)
    workers = _workers_per_machine(site, per_worker)
    needed = math.ceil(site.streams / per_worker)
    machines = math.ceil(needed / workers) + site.spare
    worst = math.ceil(site.streams / (machines - site.spare))
    max_streams = max(per_worker, streams_of_a_core(site, FULL))
    connections = _up_to(max_streams * 1.1 + 50, 100)
    starts = site.streams / site.seconds
    ports = math.ceil(worst + worst / site.seconds * TIME_WAIT)
    return Size(
        streams_per_worker=per_worker,
        workers_needed=needed,
        workers_per_machine=workers,
        machines=machines,
        streams_per_machine=math.ceil(site.streams / machines),
        streams_per_machine_at_worst=worst,
        max_streams=max_streams,
        worker_connections=connections,
        descriptors=_up_to(connections * SOCKETS + OTHER_DESCRIPTORS, 1024),
        memory_gb=round((workers * site.worker_mb * 1e6 + worst * site.memory_kb * 1e3) / 1e9, 2),
        ports=worst,
        ports_if_closed_here=ports,
        upstream_addresses=math.ceil(ports / PORTS),
        mbit=round(worst * site.rate * (site.event_bytes + CHUNK + PACKET) * 8 / 1e6, 1),
        starts_per_second=round(starts, 1),
        starts_after_loss=round(starts + site.streams / machines / (site.retry_ms / 1000 * SPREAD_AFTER_LOSS), 1),
        proxy_connections=2 * site.streams,
        redis_records=round(site.streams * site.rate, 1),
        redis_cores=round(site.streams * site.rate * site.redis_us / 1e6, 2),
    )


_OF_MEMORY = 0.75


def _workers_per_machine(site: Site, streams: int) -> int:
    each = site.worker_mb * 1e6 + streams * site.memory_kb * 1e3
    found = min(site.cores, math.floor(site.memory_gb * 1e9 * _OF_MEMORY / each))
    if not found:
        raise ValueError(f"--memory-gb: expected room for a worker of {each / 1e9:.1f} GB, got {site.memory_gb:g}")
    return found


def _up_to(value: float, step: int) -> int:
    return math.ceil(value / step) * step


def option_name(name: str) -> str:
    """Return how a field of `Site` is named on a command line."""
    return "--" + name.replace("_", "-")
