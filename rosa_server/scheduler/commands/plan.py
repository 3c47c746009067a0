"""`rosa plan FACTORY.yaml`: compute and show a schedule; no server needed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from rosa_contract.config import load_factory
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.scheduler.commands.notes import notes
from rosa_server.scheduler.commands.outlook import outlook, render_outlook
from rosa_server.scheduler.commands.patience import OutOfTimeError, within
from rosa_server.scheduler.commands.picture import draw
from rosa_server.scheduler.commands.table import counted, render, render_migration
from rosa_server.scheduler.commands.what_if import changed
from rosa_server.scheduler.exact.solve import solve_exact
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.choice import choose, expected
from rosa_server.scheduler.running.migration import plan_migration
from rosa_server.scheduler.schedule import PREDICTION, Schedule, load_schedule
from rosa_server.scheduler.search.engines import with_best_engines, with_fewest_servers
from rosa_server.scheduler.search.min_servers import Needed, servers_needed
from rosa_server.scheduler.search.relaxation import upper_bound
from rosa_server.scheduler.search.solve import solve

INFEASIBLE = 3  # exit status: the file is sound, the factory does not fit
OUT_OF_TIME = 4
TIME_LIMIT_S = 60.0
PICTURES = (".png", ".svg", ".pdf")

# Options that cannot be combined, and what to do instead. None is ignored silently.
PAPER = "--scheduler paper"
SERVERS = "--what-if servers=N"
UNSUPPORTED = (
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


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `plan` to a command line's sub-commands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "plan",
        help="show the schedule of a factory",
        description="Placement, routing, batching and rates of a factory, from its file and the profiles of its models."
        " Exit status: 0 feasible, 3 refused with reasons, 2 wrong input, 4 not finished within --time-limit.",
    )
    parser.add_argument("factory", type=Path, help="factory description (YAML)")
    parser.add_argument(
        "--json", action="store_true", help="print the schedule as JSON; `rosa serve --schedule` runs it"
    )
    parser.add_argument("--picture", type=Path, help=f"also draw it ({', '.join(PICTURES)})")
    parser.add_argument(
        "--what-if",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=N",
        help="robots=64, servers=12, or TASK=N: plan with these numbers instead",
    )
    parser.add_argument(
        "--min-servers", action="store_true", help="only print how many servers the factory needs"
    )
    parser.add_argument("--standby", type=int, default=0, metavar="N", help="keep N servers as hot standby")
    parser.add_argument(
        "--profiles", type=Path, default=DEFAULT_ROOT, help="folder with <hardware>/<model>.yaml"
    )
    parser.add_argument(
        "--scheduler",
        choices=("rosa", "paper"),
        default="rosa",
        help="rosa: ours, with its defaults; paper: as published",
    )
    parser.add_argument(
        "--dynamic-batching", action="store_true", help="servers run what waits, up to a batch"
    )
    parser.add_argument(
        "--share-components", action="store_true", help="components of one model may share a server"
    )
    parser.add_argument(
        "--p99-loop", action="store_true", help="cap rates by the p99 round, not the mean round"
    )
    parser.add_argument(
        "--network-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="time to the server and back: taken from every SLO and added to every round (0)",
    )
    parser.add_argument(
        "--bound", action="store_true", help="also say how far it can be from the best possible schedule"
    )
    parser.add_argument(
        "--exact",
        nargs="?",
        type=float,
        const=60.0,
        metavar="SECONDS",
        help="small factories: search this long at most (60) for the best schedule, with a proof; no fair shares",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=TIME_LIMIT_S,
        metavar="SECONDS",
        help=f"give up after so long ({TIME_LIMIT_S:g}); 0: never",
    )
    parser.add_argument(
        "--migrate-from",
        type=Path,
        metavar="PLAN.json",
        help="also list the steps from this schedule to the new one; servers then keep name and model where they can",
    )
    parser.set_defaults(run=main)
    return parser


def main(args: argparse.Namespace) -> int:
    """Run `rosa plan`. Exit status 0: feasible; 3: refused, with reasons; 4: out of time.

    Raises `ConfigError` for wrong input.
    """
    if not 0 <= args.time_limit < inf:
        raise ConfigError("--time-limit", [f"expected seconds from 0, got {args.time_limit:g}"])
    # The exact search has a limit of its own, and ends with the best that it has found.
    try:
        with within(args.time_limit + (args.exact or 0.0) if args.time_limit else 0.0, "rosa plan"):
            return _plan(args)
    except OutOfTimeError as error:
        print(f"{error}; fewer robots or servers take less, and --time-limit allows more", file=sys.stderr)
        return OUT_OF_TIME


def _plan(args: argparse.Namespace) -> int:
    if args.picture is not None:
        _check_picture(args.picture)  # before a search that may take long
    _check_combination(args)
    factory = load_factory(args.factory)
    described = problem_from(factory)
    if not described.classes:
        raise ConfigError(
            str(args.factory),
            [ConfigProblem("robot_fleet", "missing", "is empty; a schedule needs robots")],
        )
    problem, left_out = changed(described, args.what_if)
    if args.standby >= problem.servers and not args.min_servers:
        words = f"keeping {args.standby} of {problem.servers} servers leaves none to serve; keep fewer"
        raise ConfigError("--standby", [ConfigProblem("", "conflict", words)])
    for note in left_out:
        print(note, file=sys.stderr)
    older = load_schedule(args.migrate_from) if args.migrate_from else None
    library = ProfileLibrary(args.profiles)
    options = options_from(args)
    if args.min_servers:
        problem = with_fewest_servers(problem, library, options)
        return _min_servers(problem, library, options, args.json)
    problem = with_best_engines(problem, library, options, time.monotonic)
    exact = None
    if args.exact is not None:
        exact = solve_exact(problem, library, replace(options, time_budget_s=args.exact), time.monotonic)
    if exact is not None:
        chosen = expected(exact.schedule, problem, library, factory.policies)
    elif args.scheduler == "paper":
        schedule = solve(problem, library, options, time.monotonic)
        chosen = expected(schedule, problem, library, factory.policies)
    else:
        chosen = choose(problem, library, options, factory.policies, time.monotonic)
    schedule, migration = chosen.schedule, None
    if older is not None and schedule.feasible:
        catalog = Catalog(problem, library, options)
        migration = plan_migration(older, schedule, problem, catalog)
        schedule = migration.schedule
        chosen = expected(schedule, problem, library, factory.policies)
    if args.json:
        told = {PREDICTION: outlook(chosen, problem)} if schedule.feasible else {}
        print(json.dumps({**schedule.to_dict(), **told}, indent=2))
    else:
        expected_hz = chosen.prediction.throughput_hz if schedule.feasible else 0.0
        parts = [
            render(schedule, problem, expected_hz),
            *([render_outlook(chosen, problem)] if schedule.feasible else []),
        ]
        print("\n\n".join(parts))
    if schedule.feasible:
        lines = notes(schedule, problem, library, options.network_ms)
        print("\n" + "\n".join(lines), file=sys.stderr if args.json else None)
    if exact is not None and schedule.feasible:
        print("\n" + exact.in_words(), file=sys.stderr if args.json else None)
    if args.bound and schedule.feasible:
        print(
            "\n" + _gap(schedule, upper_bound(problem, library, _as_chosen(options, schedule))),
            file=sys.stderr if args.json else None,
        )
    if migration is not None:
        print("\n" + render_migration(migration), file=sys.stderr if args.json else None)
    if args.picture and schedule.servers:
        draw(schedule, args.picture)
    elif args.picture:
        print(f"{args.picture} is not drawn: there is no schedule", file=sys.stderr)
    return 0 if schedule.feasible else INFEASIBLE


def _check_picture(path: Path) -> None:
    problems = []
    if path.suffix not in PICTURES:
        words = f"expected a name that ends in {', '.join(PICTURES)}"
        problems.append(ConfigProblem(str(path), "unknown_name", words))
    if not path.parent.is_dir():
        problems.append(ConfigProblem(str(path), "missing", f"no folder {path.parent}; make it first"))
    if problems:
        raise ConfigError("--picture", problems)


def _check_combination(args: argparse.Namespace) -> None:
    given = {
        PAPER: args.scheduler == "paper",
        SERVERS: any(change.startswith("servers=") for change in args.what_if),
        "--min-servers": args.min_servers,
        "--standby": args.standby != 0,
        "--dynamic-batching": args.dynamic_batching,
        "--share-components": args.share_components,
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
    if args.standby < 0:
        problem = ConfigProblem("", "out_of_range", f"expected 0 or more, got {args.standby}")
        raise ConfigError("--standby", [problem])
    if args.exact is not None and not 0 < args.exact < inf:
        problem = ConfigProblem("", "out_of_range", f"expected more than 0 seconds, got {args.exact:g}")
        raise ConfigError("--exact", [problem])
    if not 0 <= args.network_ms < inf:
        problem = ConfigProblem("", "out_of_range", f"expected 0 or more ms, got {args.network_ms:g}")
        raise ConfigError("--network-ms", [problem])
    make = Options.paper if args.scheduler == "paper" else Options
    return make(
        standby=args.standby,
        dynamic_batching=args.dynamic_batching,
        share_components=args.share_components,
        loop_statistic="p99" if args.p99_loop else "mean",
        network_ms=args.network_ms,
    )


def _as_chosen(options: Options, schedule: Schedule) -> Options:
    """The options, with servers shared by components where the chosen schedule has such."""
    shared = bool(schedule.options.get("share_components", options.share_components))
    return replace(options, share_components=shared)


def _gap(schedule: Schedule, bound: float | None) -> str:
    if bound is None:
        return "No bound was found in the time limit of its linear program."
    below = 1 - schedule.objective / bound
    return f"At most {below:.1%} below the best possible schedule: no schedule on these servers exceeds {bound:.2f}."


def _min_servers(problem: Problem, library: ProfileLibrary, options: Options, as_json: bool) -> int:
    steps = (0.0, 0.5, 0.9, 0.95)
    needed = {share: servers_needed(problem, library, options, share) for share in steps}
    fewest = needed[0.0]
    if fewest is None:
        reasons = solve(problem, library, options, time.monotonic).reasons
        print("\n".join(refusal.reason for refusal in reasons), file=sys.stderr)
        return INFEASIBLE
    if as_json:
        enough = {str(share): found and found.servers for share, found in needed.items()}
        least = {str(share): found and found.least for share, found in needed.items()}
        print(
            json.dumps(
                {"min_servers": fewest.servers, "for_share_of_fastest": enough, "proved_at_least": least}
            )
        )
        return 0
    robots = counted(problem.robots, "robot")
    print(
        f"{counted(fewest.servers, 'server')} will keep every SLO and minimum rate of {robots}; {_proof(fewest)}."
    )
    if options.standby:
        print(
            f"{options.standby} of them, here and below, {'is' if options.standby == 1 else 'are'} kept as standby."
        )
    for share in steps[1:]:
        found = needed[share]
        servers = "No number of servers" if found is None else counted(found.servers, "server")
        proof = "" if found is None else f"; {_proof(found)}"
        print(f"{servers} will let robots act at {share:.0%} of their task's fastest rate on average{proof}.")
    return 0


def _proof(found: Needed) -> str:
    return "fewer are not enough" if found.proved else f"fewer than {found.least} are not enough"
