"""`rosa plan FACTORY.yaml`: compute and show a schedule; no server needed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import Any

from rosa_contract.config.factory import load_factory
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.scheduler.choosing.choice import choose, expected
from rosa_server.scheduler.commands.min_servers import show_min_servers
from rosa_server.scheduler.commands.notes import notes
from rosa_server.scheduler.commands.outlook import outlook, render_outlook
from rosa_server.scheduler.commands.patience import OutOfTimeError, within
from rosa_server.scheduler.commands.picture import draw
from rosa_server.scheduler.commands.plan_options import add_options, check, options_from
from rosa_server.scheduler.commands.table import render, render_migration
from rosa_server.scheduler.commands.what_if import changed
from rosa_server.scheduler.exact.solve import solve_exact
from rosa_server.scheduler.placement.schedule import PREDICTION, Schedule, load_schedule
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.migration import plan_migration
from rosa_server.scheduler.search.engines import with_best_engines, with_fewest_servers
from rosa_server.scheduler.search.relaxation import upper_bound
from rosa_server.scheduler.search.solve import solve

INFEASIBLE = 3  # exit status: the file is sound, the factory does not fit
OUT_OF_TIME = 4


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `plan` to a command line's sub-commands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "plan",
        help="compute and print the schedule of a factory",
        description="Compute placement, routing, batching and rates for a factory from its file and the profiles of"
        " its models. Exit status: 0 feasible, 2 wrong input, 3 infeasible (the reasons are printed), 4"
        " not finished within --time-limit.",
    )
    add_options(parser)
    parser.set_defaults(run=main)
    return parser


def main(args: argparse.Namespace) -> int:
    """Run `rosa plan`. Exit status 0: feasible; 3: refused, with reasons; 4: out of time.

    Raises `ConfigError` for wrong input.
    """
    check(args)
    # The exact search has its own limit, and ends with the best that it has found.
    try:
        with within(args.time_limit + (args.exact or 0.0) if args.time_limit else 0.0, "rosa plan"):
            return _plan(args)
    except OutOfTimeError as error:
        print(f"{error}; fewer robots or servers take less, and --time-limit allows more", file=sys.stderr)
        return OUT_OF_TIME


def _plan(args: argparse.Namespace) -> int:
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
    library = ProfileLibrary(args.profiles, beside=DEFAULT_ROOT)
    options = options_from(args)
    if args.min_servers:
        problem = with_fewest_servers(problem, library, options)
        return 0 if show_min_servers(problem, library, options, args.json) else INFEASIBLE
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
    standbys = [server for server in schedule.servers if server.standby]
    if standbys and not any(server.covers for server in standbys):
        words = (
            "a standby stands in for a server with a GPU to itself, and here models take turns on every GPU;"
        )
        words += " leave it out, or plan with more servers"
        raise ConfigError("--standby", [ConfigProblem("", "conflict", words)])
    if older is not None and (older.shares_gpus or schedule.shares_gpus):
        words = "models of one of both schedules take turns on a GPU; steps are planned for GPUs of one model each"
        raise ConfigError("--migrate-from", [ConfigProblem("", "conflict", words)])
    if older is not None and not (older.holds_for_any_arrivals and schedule.holds_for_any_arrivals):
        words = "one of both schedules holds only as it was played through; the steps between them were not"
        raise ConfigError("--migrate-from", [ConfigProblem("", "conflict", words)])
    if older is not None and schedule.feasible:
        catalog = Catalog(problem, library, options)
        migration = plan_migration(older, schedule, problem, catalog)
        schedule = migration.schedule
        chosen = expected(schedule, problem, library, factory.policies)
    if args.json:
        told = {PREDICTION: outlook(chosen, problem, factory.gateway.order)} if schedule.feasible else {}
        print(json.dumps({**schedule.to_dict(), **told}, indent=2))
    else:
        expected_hz = chosen.prediction.throughput_hz if schedule.feasible else 0.0
        parts = [
            render(schedule, problem, expected_hz),
            *([render_outlook(chosen, problem, factory.gateway.order)] if schedule.feasible else []),
        ]
        print("\n\n".join(parts))
    if schedule.feasible:
        lines = notes(schedule, problem, library, options.network_ms)
        print("\n" + "\n".join(lines), file=sys.stderr if args.json else None)
    if exact is not None and schedule.feasible:
        print("\n" + exact.in_words(), file=sys.stderr if args.json else None)
    if args.bound and schedule.shares_gpus:
        print("\nNo bound: it is of schedules with a GPU for each model.", file=sys.stderr)
    elif args.bound and schedule.feasible and not schedule.holds_for_any_arrivals:
        print("\nNo bound: it is of schedules whose SLOs hold whenever calls come.", file=sys.stderr)
    elif args.bound and schedule.feasible:
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


def _as_chosen(options: Options, schedule: Schedule) -> Options:
    """The options, with servers shared by components where the chosen schedule has such."""
    shared = bool(schedule.options.get("share_components", options.share_components))
    return replace(options, share_components=shared)


def _gap(schedule: Schedule, bound: float | None) -> str:
    if bound is None:
        return "No bound was found in the time limit of its linear program."
    below = 1 - schedule.objective / bound
    return f"At most {below:.1%} below the best possible schedule: no schedule on these servers exceeds {bound:.2f}."
