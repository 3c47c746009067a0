"""`rosa rollout MODEL WEIGHTS`: new weights for a model of a running server, one worker after the other."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.commands.live.running import add_server, running
from rosa_server.serving.core.workers.comparing import DEFAULT
from rosa_server.serving.operations.names import CANARY, ROLLOUT, SHADOW
from rosa_server.serving.operations.terms import PATIENCE, Terms

LIMIT_S = 3600.0


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "rollout",
        help="exchange the weights of a model in a running server without losing a call",
        description="For each worker of MODEL in turn, another one with the new weights is started beside it; when that"
        " is warm, it takes over, and the old one finishes what it has and ends. If it does not get warm, the old one"
        " stays. For a moment both are in the GPU's memory. With --canary the first new worker shares the calls of the"
        " one that it is to replace for so long. With --shadow it answers copies of calls for so long, and"
        " no robot hears of it. If more of its answers fail or are late, calls take longer, or (--shadow) its actions"
        " or verdicts differ too much, it ends and the old weights serve on. The factory file is not changed.",
    )
    parser.add_argument("model", metavar="MODEL", help="name of an entry of `models`")
    parser.add_argument("weights", metavar="WEIGHTS", type=Path, help="file or folder")
    trial = parser.add_mutually_exclusive_group()
    trial.add_argument(
        "--canary",
        type=float,
        metavar="SECONDS",
        help="compare one new worker with an old one for so long first",
    )
    trial.add_argument(
        "--shadow",
        type=float,
        metavar="SECONDS",
        help="compare the answers of one new worker to copies of calls with those that robots got for so long first",
    )
    parser.add_argument(
        "--share", type=float, metavar="PART", help="with --shadow: of the robots, whose calls are copied (1)"
    )
    parser.add_argument(
        "--slower",
        type=float,
        metavar="TIMES",
        help=f"with --canary or --shadow: a call may take this many times as long ({DEFAULT.slower:g})",
    )
    parser.add_argument(
        "--distance",
        type=float,
        metavar="PART",
        help="with --shadow: how far actions may be apart (root mean square), as a part of the spread of the old ones"
        f" ({DEFAULT.distance:g}; 1.4: as two actions at random)",
    )
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    terms = terms_from(arguments)
    with running(arguments.server) as server:
        limit_s = LIMIT_S + (1 + PATIENCE) * max(0.0, terms.seconds)
        print(server.order(terms.kind, arguments.model, terms.value, limit_s))
    return 0


def terms_from(arguments: argparse.Namespace) -> Terms:
    """Raises `ConfigError`."""
    weights = str(arguments.weights.absolute())
    kind = ROLLOUT
    if arguments.canary is not None or arguments.shadow is not None:
        kind = CANARY if arguments.shadow is None else SHADOW
    for name, kinds in (("share", (SHADOW,)), ("distance", (SHADOW,)), ("slower", (CANARY, SHADOW))):
        if getattr(arguments, name) is not None and kind not in kinds:
            words = f"is only for --{' and --'.join(kinds)}"
            raise ConfigError("rosa rollout", [ConfigProblem(f"--{name}", "conflict", words)])
    seconds = arguments.canary if arguments.shadow is None else arguments.shadow
    limits = replace(
        DEFAULT,
        slower=DEFAULT.slower if arguments.slower is None else arguments.slower,
        distance=DEFAULT.distance if arguments.distance is None else arguments.distance,
    )
    share = 1.0 if arguments.share is None else arguments.share
    return Terms(weights, kind, seconds or 0.0, share, limits)
