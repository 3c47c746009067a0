"""`rosa rollout MODEL WEIGHTS`: new weights for a model of a running server, one worker after the other."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rosa_server.commands.live.running import add_server, running
from rosa_server.serving.operations.names import CANARY, ROLLOUT

LIMIT_S = 3600.0


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "rollout",
        help="exchange the weights of a model in a running server without losing a call",
        description="For each worker of MODEL in turn, another one with the new weights is started beside it; when that"
        " is warm, it takes over, and the old one finishes what it has and ends. If it does not get warm, the old one"
        " stays. For a moment both are in the GPU's memory. With --canary the first new worker shares the calls of the"
        " one that it is to replace for so long; if more of its answers fail or are late, or calls take longer, it ends"
        " and the old weights serve on. The factory file is not changed.",
    )
    parser.add_argument("model", metavar="MODEL", help="name of an entry of `models`")
    parser.add_argument("weights", metavar="WEIGHTS", type=Path, help="file or folder")
    parser.add_argument(
        "--canary",
        type=float,
        metavar="SECONDS",
        help="compare one new worker with an old one for so long first",
    )
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    with running(arguments.server) as server:
        weights = str(arguments.weights.absolute())
        if arguments.canary is None:
            print(server.order(ROLLOUT, arguments.model, weights, LIMIT_S))
        else:
            value = f"{arguments.canary:g} {weights}"
            print(server.order(CANARY, arguments.model, value, LIMIT_S + max(0.0, arguments.canary)))
    return 0
