"""`rosa scale servers=N`: the running server gets to a schedule on more or fewer servers."""

from __future__ import annotations

import argparse
from typing import Any

from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.commands.live.reschedule import add_options, replan
from rosa_server.commands.live.running import running

MAX_SERVERS = 1_000_000


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "scale",
        help="change the number of GPUs of a running server without interrupting service",
        description="Plan again for the robots that have slots now, on N servers of one GPU each (standbys included),"
        " and apply the plan as `rosa reschedule` does. Refused if N servers are not enough.",
    )
    parser.add_argument("change", metavar="servers=N", help="new number of servers")
    add_options(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    name, _, text = arguments.change.partition("=")
    if name != "servers" or not (text.isascii() and text.isdigit() and 1 <= int(text[:8]) <= MAX_SERVERS):
        words = f"expected servers=N with a whole number N from 1 to {MAX_SERVERS}"
        raise ConfigError("rosa scale", [ConfigProblem(arguments.change, "out_of_range", words)])
    with running(arguments.server) as server:
        return replan(server, int(text), arguments)
