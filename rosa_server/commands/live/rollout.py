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
        help="replace a model's weights in a running server without losing a call",
        description="Replace the workers of MODEL one at a time: start a new worker with the new weights beside the"
        " old one; once it is warm it takes over, and the old one finishes its calls and stops. If the new"
        " worker does not become warm, the old one stays. Both are in GPU memory for a moment. With"
        " --canary, the first new worker first shares the calls of the worker that it replaces. With"
        " --shadow, it first answers copies of calls, and no robot gets those answers. The rollout is"
        " abandoned, and the old weights stay, if the new worker has more failed or late answers, is"
        " slower, or (--shadow) its actions or verdicts differ too much. The factory file is not changed.",
    )
    parser.add_argument("model", metavar="MODEL", help="name of an entry of `models`")
    parser.add_argument("weights", metavar="WEIGHTS", type=Path, help="file or folder of the new weights")
    trial = parser.add_mutually_exclusive_group()
    trial.add_argument(
        "--canary",
        type=float,
        metavar="SECONDS",
        help="first compare one new worker with an old one for this long, s",
    )
    trial.add_argument(
        "--shadow",
        type=float,
        metavar="SECONDS",
        help="first have one new worker answer copies of calls for this long, s, and compare with the answers"
        " that robots got",
    )
    parser.add_argument(
        "--share",
        type=float,
        metavar="PART",
        help="with --shadow: share of the robots whose calls are copied (1)",
    )
    parser.add_argument(
        "--slower",
        type=float,
        metavar="TIMES",
        help=f"with --canary or --shadow: how many times as long a call may take ({DEFAULT.slower:g})",
    )
    parser.add_argument(
        "--distance",
        type=float,
        metavar="PART",
        help="with --shadow: largest allowed RMS difference of the actions, relative to the spread of the old ones"
        f" ({DEFAULT.distance:g}; two random actions differ by 1.4)",
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
