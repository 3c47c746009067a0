"""`rosa down`: end the gateways that `rosa up` has started."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_server.commands.up import add_address


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "down",
        help="end the gateways that `rosa up` has started on the nodes of a Ray cluster",
        description="Every gateway answers what it has accepted, and ends with its workers; nothing stays reserved.",
    )
    add_address(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.cluster.on_ray.gateways import bring_down

    print(f"ended: {', '.join(bring_down(arguments.address))}")
    return 0
