"""`rosa rollout MODEL WEIGHTS`: new weights for a model of a running server, one worker after the other."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rosa_server.commands.live.running import add_server, running
from rosa_server.serving.operations.names import ROLLOUT

LIMIT_S = 3600.0


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "rollout",
        help="exchange the weights of a model in a running server without losing a call",
        description="For each worker of MODEL in turn, another one with the new weights is started beside it; when that"
        " is warm, it takes over, and the old one finishes what it has and ends. If it does not get warm, the old one"
        " stays. For a moment both are in the GPU's memory. The factory file is not changed.",
    )
    parser.add_argument("model", metavar="MODEL", help="name of an entry of `models`")
    parser.add_argument("weights", metavar="WEIGHTS", type=Path, help="file or folder")
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    with running(arguments.server) as server:
        print(server.order(ROLLOUT, arguments.model, str(arguments.weights.absolute()), LIMIT_S))
    return 0
