"""`rosa drain SERVER`: no more calls for one server of a schedule, which ends when it has finished."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_server.commands.live.running import add_server, running
from rosa_server.serving.operations.names import DRAIN, RETIRES_S


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "drain",
        help="take one server of the schedule, or one worker, out of service without losing a call",
        description="Move the streams of SERVER to its standby or to other workers. SERVER finishes its calls, stops,"
        " and stays down until `rosa undrain SERVER`. Refused if nothing else can run its streams.",
    )
    parser.add_argument(
        "target", metavar="SERVER", help="server of the schedule, or a worker such as policy/0"
    )
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    with running(arguments.server) as server:
        print(server.order(DRAIN, arguments.target, "", 2 * RETIRES_S))
    return 0
