"""`rosa remove ROBOT`: take a robot out of a running server."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_server.commands.live.running import ANSWERS_S, add_server, running
from rosa_server.serving.operations.names import REMOVE


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "remove",
        help="take a robot out of a running server",
        description="The robot's calls end, its slot is free for another one, and its hellos are refused (`removed`)"
        " until `rosa admit ROBOT` or the server's next start. What the robot does then is its own fallback: it holds"
        " and calls its operator.",
    )
    parser.add_argument("robot", metavar="ROBOT", help="by its name, as `rosa robots` lists it")
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    with running(arguments.server) as server:
        print(server.order(REMOVE, arguments.robot, "", ANSWERS_S))
    return 0
