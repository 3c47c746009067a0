"""`rosa undrain SERVER`: a drained server starts again."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_server.commands.live.running import ANSWERS_S, add_server, running
from rosa_server.serving.operations.names import UNDRAIN


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "undrain", help="restart what `rosa drain` took out of service"
    )
    parser.add_argument("target", metavar="SERVER", help="as for `rosa drain`")
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    with running(arguments.server) as server:
        print(server.order(UNDRAIN, arguments.target, "", ANSWERS_S))
    return 0
