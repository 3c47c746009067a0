"""The options of `rosa plan`: what may be given, what cannot be combined, and what it means to the scheduler."""

from __future__ import annotations

import argparse
from math import inf
from pathlib import Path

from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.scheduler.profiles.library import DEFAULT_ROOT
from rosa_server.scheduler.profiles.options import Options

TIME_LIMIT_S = 60.0
PICTURES = (".png", ".svg", ".pdf")

# Options that cannot be combined, and what to do instead. None is ignored silently.
PAPER = "--scheduler paper"
SERVERS = "--what-if servers=N"
SHARE_GPUS = "--share-gpus"
UNSUPPORTED = (
    (PAPER, SHARE_GPUS, "the published scheduler gives every model its own GPU; leave one of them out"),
    ("--exact", SHARE_GPUS, "the exact search gives every model its own GPU; leave one of them out"),
    ("--bound", SHARE_GPUS, "the bound is of schedules with a GPU for each model; leave one of them out"),
    ("--migrate-from", SHARE_GPUS, "steps are planned for GPUs of one model each; leave one of them out"),
    (PAPER, "--exact", "the published scheduler has no exact search; leave one of them out"),
    ("--min-servers", "--exact", "it makes no schedule to improve; make one with --what-if servers=N"),
    ("--min-servers", SERVERS, "it finds the number of servers itself; leave one of them out"),
    ("--min-servers", "--picture", "it makes no schedule to draw; make one with --what-if servers=N"),
    ("--min-servers", "--bound", "it makes no schedule to compare; make one with --what-if servers=N"),
    (
        "--min-servers",
        "--migrate-from",
        "it makes no schedule to migrate to; make one with --what-if servers=N",
    ),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("factory", type=Path, help="factory file (YAML)")
    parser.add_argument(
        "--json", action="store_true", help="print the schedule as JSON; `rosa serve --schedule` runs it"
    )
    parser.add_argument("--picture", type=Path, help=f"also draw the schedule ({', '.join(PICTURES)})")
    parser.add_argument(
        "--what-if",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=N",
        help="plan with other numbers: robots=64, servers=12, or TASK=N",
    )
    parser.add_argument(
        "--min-servers", action="store_true", help="only print the number of servers that the factory needs"
    )
    parser.add_argument("--standby", type=int, default=0, metavar="N", help="keep N servers as hot standbys")
    parser.add_argument(
        "--profiles",
        type=Path,
        default=DEFAULT_ROOT,
        help="folder of profiles, <hardware>/<model>.yaml, in addition to the shipped ones",
    )
    parser.add_argument(
        "--scheduler",
        choices=("rosa", "paper"),
        default="rosa",
        help="rosa: this project's scheduler with its defaults; paper: as published",
    )
    parser.add_argument(
        "--dynamic-batching",
        action="store_true",
        help="servers batch whatever is waiting, up to the batch size",
    )
    parser.add_argument(
        "--share-components", action="store_true", help="let components with the same model share a server"
    )
    parser.add_argument(
        SHARE_GPUS,
        action="store_true",
        help="let models take turns on one GPU; by default they do so only if no other schedule fits",
    )
    parser.add_argument(
        "--admission",
        action="store_true",
        help="only accept schedules that can admit robots beyond the planned ones, even if the planned robots"
        " then act much less often; ignored if there is no such schedule",
    )
    parser.add_argument(
        "--p99-loop", action="store_true", help="cap rates by the p99 round time instead of the mean"
    )
    parser.add_argument(
        "--network-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="network round trip, subtracted from every SLO and added to every round (0)",
    )
    parser.add_argument(
        "--bound",
        action="store_true",
        help="also print how far the schedule can be from the best possible one",
    )
    parser.add_argument(
        "--exact",
        nargs="?",
        type=float,
        const=60.0,
        metavar="SECONDS",
        help="for small factories: search up to this long (60) for the provably best schedule; without fair"
        " shares",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=TIME_LIMIT_S,
        metavar="SECONDS",
        help=f"give up after this long ({TIME_LIMIT_S:g}); 0: never",
    )
    parser.add_argument(
        "--migrate-from",
        type=Path,
        metavar="PLAN.json",
        help="also list the steps from this schedule to the new one; servers keep their names and models where"
        " possible",
    )


def check(args: argparse.Namespace) -> None:
    """Before a search that may take long. Raises `ConfigError` for options that make no sense, alone or together."""
    if not 0 <= args.time_limit < inf:
        raise ConfigError("--time-limit", [f"expected seconds from 0, got {args.time_limit:g}"])
    if args.standby < 0:
        problem = ConfigProblem("", "out_of_range", f"expected 0 or more, got {args.standby}")
        raise ConfigError("--standby", [problem])
    if args.exact is not None and not 0 < args.exact < inf:
        problem = ConfigProblem("", "out_of_range", f"expected more than 0 seconds, got {args.exact:g}")
        raise ConfigError("--exact", [problem])
    if not 0 <= args.network_ms < inf:
        problem = ConfigProblem("", "out_of_range", f"expected 0 or more ms, got {args.network_ms:g}")
        raise ConfigError("--network-ms", [problem])
    if args.picture is not None:
        check_picture("--picture", args.picture)
    _check_combination(args)


def check_picture(option: str, path: Path) -> None:
    """Raises `ConfigError` where no picture can be drawn there."""
    problems = []
    if path.suffix not in PICTURES:
        words = f"expected a name that ends in {', '.join(PICTURES)}"
        problems.append(ConfigProblem(str(path), "unknown_name", words))
    if not path.parent.is_dir():
        problems.append(ConfigProblem(str(path), "missing", f"no folder {path.parent}; make it first"))
    if problems:
        raise ConfigError(option, problems)


def _check_combination(args: argparse.Namespace) -> None:
    given = {
        PAPER: args.scheduler == "paper",
        SERVERS: any(change.startswith("servers=") for change in args.what_if),
        "--min-servers": args.min_servers,
        "--standby": args.standby != 0,
        "--dynamic-batching": args.dynamic_batching,
        "--share-components": args.share_components,
        SHARE_GPUS: args.share_gpus,
        "--p99-loop": args.p99_loop,
        "--bound": args.bound,
        "--exact": args.exact is not None,
        "--picture": args.picture is not None,
        "--migrate-from": args.migrate_from is not None,
    }
    problems = [
        ConfigProblem("", "conflict", f"{one} and {other} cannot be combined: {why}")
        for one, other, why in UNSUPPORTED
        if given[one] and given[other]
    ]
    if problems:
        raise ConfigError("options", problems)


def options_from(args: argparse.Namespace) -> Options:
    """What the scheduler is told."""
    make = Options.paper if args.scheduler == "paper" else Options
    return make(
        standby=args.standby,
        dynamic_batching=args.dynamic_batching,
        share_components=args.share_components,
        share_gpus=args.share_gpus,
        admission=args.admission,
        loop_statistic="p99" if args.p99_loop else "mean",
        network_ms=args.network_ms,
    )
