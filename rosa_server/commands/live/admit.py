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
        help="readmit a removed robot, or make room for one more robot of a task",
        description="With ROBOT, undo `rosa remove`. With --task, add one slot on the running servers, provided that"
        " every SLO still holds, and print which servers it joins and whose rates drop. The slot lasts"
        " until the next start of the server. A robot without a slot is admitted automatically when it"
        " connects; use this to make room beforehand, or to see the effect (--dry-run).",
    )
    parser.add_argument("robot", nargs="?", default="", metavar="ROBOT", help="robot that was removed")
    parser.add_argument("--task", default="", metavar="TASK", help="add one slot for this task")
    parser.add_argument(
        "--dry-run", action="store_true", help="with --task: print the effect without adding the slot"
    )
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
