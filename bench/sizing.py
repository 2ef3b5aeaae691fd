"""How many workers and machines so many streams need: `python -m bench.sizing --streams 10000 --rate 20`.

`bench.simulation` plays the same machines. What a token and a stream cost are figures of `make bench` on one machine:
give yours.
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import asdict, fields
from typing import Any, Sequence

import click

from bench.capacity import PORTS, Site, Size, option_name, size
from bench.case import number
from bench.json_file import json_option, write_json
from bench.table import grid

SCHEMA_VERSION = 1


def rows(site: Site, found: Size) -> Sequence[tuple[str, str]]:
    """Return the figures for people."""
    return (
        ("streams of a worker", f"{number(found.streams_per_worker)} at {site.headroom:.0%} of a core"),
        ("workers", f"{number(found.workers_needed)} at least; {found.workers_per_machine} on a machine"),
        ("machines", f"{number(found.machines)}; {site.spare} may be missing"),
        (
            "streams of a machine",
            f"{number(found.streams_per_machine)}; {number(found.streams_per_machine_at_worst)} if so",
        ),
        ("max_streams", number(found.max_streams)),
        ("worker_connections", number(found.worker_connections)),
        ("LimitNOFILE", number(found.descriptors)),
        ("memory of a machine", f"{found.memory_gb:.1f} GB"),
        (
            "ports to the upstream",
            f"{number(found.ports)}; {number(found.ports_if_closed_here)} with TIME_WAIT, of {number(PORTS)}",
        ),
        ("bandwidth", f"{number(found.mbit)} Mbit/s each way"),
        (
            "new streams a second",
            f"{number(found.starts_per_second)}; {number(found.starts_after_loss)} after a machine was lost",
        ),
        ("nginx in front", f"{number(found.proxy_connections)} connections"),
        ("with Redis", f"{number(found.redis_records)} tokens a second: {found.redis_cores:.1f} cores of Redis"),
    )


def site_options(command: Any) -> Any:
    """Give a command an option for each field of `Site`, explained as there."""
    said = {name: words for names, words in _ATTRIBUTE.findall(Site.__doc__ or "") for name in names.split(", ")}
    for one in reversed(fields(Site)):
        kind = int if one.type == "int" else float
        given = {"required": True} if one.name == "streams" else {"default": one.default, "show_default": True}
        words = said[one.name][:1].upper() + said[one.name][1:]
        command = click.option(option_name(one.name), type=kind, help=words, **given)(command)
    return command


_ATTRIBUTE = re.compile(r"^ +([\w, ]+): (.+)$", re.MULTILINE)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@site_options
@json_option
def main(json_file: pathlib.Path | None, **given: Any) -> None:
    """Print what so many streams need, of so many tokens a second."""
    try:
        site = Site(**given)
        found = size(site)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    write_json(json_file, {"schema_version": SCHEMA_VERSION, "site": asdict(site), "size": asdict(found)})
    words = f"{number(site.streams)} streams of {site.rate:g} tokens a second"
    click.echo(grid((words, ""), rows(site, found)))


if __name__ == "__main__":
    main()
