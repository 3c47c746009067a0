"""`rosa down`: end the gateways that `rosa up` has started."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_server.commands.up import add_address


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "down",
        help="stop the gateways that `rosa up` started on a Ray cluster",
        description="Each gateway answers the calls that it has accepted, then stops together with its workers. No"
        " Ray resources stay reserved.",
    )
    add_address(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.cluster.on_ray.gateways import bring_down

    print(f"ended: {', '.join(bring_down(arguments.address))}")
    return 0
