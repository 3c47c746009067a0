"""`rosa cancel TARGET`: an operation that is at work ends in order, wherever it was begun."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_server.commands.live.running import ANSWERS_S, add_server, running
from rosa_server.serving.operations.names import CANCEL


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "cancel",
        help="cancel an operation in progress, as Ctrl-C in the command that started it does",
        description="A cancelled drain puts its workers back into service. A cancelled rollout replaces no further"
        " workers; those that already run the new weights keep them. A cancelled reschedule rolls back, or"
        " stops between two steps once streams have moved. `rosa robots` lists operations in progress.",
    )
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="server, worker or model that the operation was started for, or `schedule`",
    )
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    with running(arguments.server) as server:
        print(server.order(CANCEL, arguments.target, "", ANSWERS_S))
    return 0
