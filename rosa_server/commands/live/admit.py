"""`rosa admit ROBOT`, `rosa admit --task TASK`: let a robot come back, or make room for one more."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.commands.live.running import ANSWERS_S, add_server, running
from rosa_server.serving.operations.names import ADD_SLOT, ADMIT, DRY_RUN


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "admit",
        help="let a removed robot come back, or make room for one more robot of a task",
        description="With a ROBOT: undo `rosa remove`. With --task: one more slot on the servers that run, where every"
        " SLO still holds; the answer says which servers it joins and whose rates fall. The slot stays until the"
        " server's next start. A robot without a slot is admitted by itself when it says hello; this makes room before"
        " it comes, or says what would follow (--dry-run).",
    )
    parser.add_argument("robot", nargs="?", default="", metavar="ROBOT", help="one that was removed")
    parser.add_argument("--task", default="", metavar="TASK", help="one more slot for this task")
    parser.add_argument("--dry-run", action="store_true", help="with --task: only say what would follow")
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    if bool(arguments.robot) == bool(arguments.task) or (arguments.dry_run and not arguments.task):
        words = "expected a ROBOT, or --task TASK, which alone may have --dry-run"
        raise ConfigError("options", [ConfigProblem("", "conflict", words)])
    with running(arguments.server) as server:
        if arguments.robot:
            print(server.order(ADMIT, arguments.robot, "", ANSWERS_S))
        else:
            value = DRY_RUN if arguments.dry_run else ""
            print(server.order(ADD_SLOT, arguments.task, value, ANSWERS_S))
    return 0
