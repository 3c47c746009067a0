"""`rosa cancel TARGET`: an operation that is at work ends in order, wherever it was begun."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_server.commands.live.running import ANSWERS_S, add_server, running
from rosa_server.serving.operations.names import CANCEL


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "cancel",
        help="cancel an operation that is at work; Ctrl-C in the command that ordered it does the same",
        description="A drain that is cancelled gives its workers back. A rollout begins with no other worker; one that"
        " runs the new weights already keeps them. A rescheduling goes back, or stops between two steps once streams"
        " have moved. `rosa robots` lists what is at work.",
    )
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="the server, worker or model that was named in the order, or `schedule`",
    )
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    with running(arguments.server) as server:
        print(server.order(CANCEL, arguments.target, "", ANSWERS_S))
    return 0
