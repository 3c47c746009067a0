"""`rosa remove ROBOT`: take a robot out of a running server."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_server.commands.live.running import ANSWERS_S, add_server, running
from rosa_server.serving.operations.names import REMOVE


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "remove",
        help="remove a robot from a running server",
        description="End the robot's calls, free its slot, and refuse it (`removed`) until `rosa admit ROBOT` or the"
        " next start of the server. The robot then follows its own fallback: it holds and calls its"
        " operator.",
    )
    parser.add_argument("robot", metavar="ROBOT", help="robot name, as listed by `rosa robots`")
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    with running(arguments.server) as server:
        print(server.order(REMOVE, arguments.robot, "", ANSWERS_S))
    return 0
