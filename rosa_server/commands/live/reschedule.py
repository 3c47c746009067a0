"""`rosa reschedule [SCHEDULE.json]`: the running server gets to another schedule, and every stream keeps a server."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rosa_contract.config.factory import load_factory
from rosa_contract.config.strict import Reader
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.commands.live.running import Running, RunningError, add_server, running
from rosa_server.serving.operations.names import RESCHEDULE, RESCHEDULE_DRY_RUN, SCHEDULE
from rosa_server.serving.watching.place import default_folder

INFEASIBLE = 3  # exit status, as of `rosa plan`
LIMIT_S = 4 * 3600.0


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "reschedule",
        help="move a running server to another schedule without interrupting service",
        description="Without a file, plan again for the robots that have slots now, on the number of servers that the"
        " current schedule was made for. New servers load their models first, then streams move to them"
        " as far as every SLO still holds, then unused servers unload. Each step is printed. Refused if a"
        " stream would be left without a server at any time. Ctrl-C rolls back; once streams have moved,"
        " it stops between two steps instead.",
    )
    parser.add_argument(
        "schedule",
        nargs="?",
        default="",
        metavar="SCHEDULE.json",
        help="schedule from `rosa plan --json`, instead of planning again",
    )
    add_options(parser)
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="print the steps without carrying them out")
    parser.add_argument(
        "--save",
        default="",
        metavar="FILE",
        help="save the new plan to this file instead of the server's private folder",
    )
    add_server(parser)


def main(arguments: argparse.Namespace) -> int:
    if arguments.schedule and arguments.save:
        words = "a SCHEDULE.json and --save cannot be combined: the schedule has a file already"
        raise ConfigError("options", [ConfigProblem("", "conflict", words)])
    with running(arguments.server) as server:
        if arguments.schedule:
            return carry_out(server, Path(arguments.schedule).absolute(), arguments.dry_run)
        return replan(server, None, arguments)


def replan(server: Running, servers: int | None, arguments: argparse.Namespace) -> int:
    """Plan for the robots that have slots, on `servers` servers (None: as before), and have it carried out."""
    about = server.about()
    if "schedule" not in about:
        raise RunningError(
            "refused", "the server runs without a schedule; start it with `rosa serve --schedule`"
        )
    plan = planned(about, servers)
    if not plan["feasible"]:
        reasons = "; ".join(one["reason"] for one in plan["reasons"])
        print(f"no schedule for these robots on these servers: {reasons}", file=sys.stderr)
        return INFEASIBLE
    named = time.strftime("schedule-%Y%m%d-%H%M%S.json")
    path = Path(arguments.save).absolute() if arguments.save else default_folder() / named
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(plan, file)
    try:
        return carry_out(server, path, arguments.dry_run)
    finally:
        if arguments.dry_run and not arguments.save:
            path.unlink(missing_ok=True)


def carry_out(server: Running, path: Path, dry_run: bool) -> int:
    """Have the server get to the schedule in a file, or say how it would."""
    words = server.order(RESCHEDULE_DRY_RUN if dry_run else RESCHEDULE, SCHEDULE, str(path), LIMIT_S)
    print(words)
    if not dry_run:
        print(f"start the server with it next time: --schedule {path}")
    return 0


def planned(about: Mapping[str, Any], servers: int | None) -> dict[str, Any]:
    """A schedule, or a refusal, as `rosa plan --json` prints it. Raises `ConfigError`."""
    from rosa_server.scheduler.choosing.choice import choose
    from rosa_server.scheduler.problem import problem_from
    from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary
    from rosa_server.scheduler.profiles.options import Options
    from rosa_server.scheduler.search.engines import with_best_engines

    factory, library = (
        load_factory(about["factory_file"]),
        ProfileLibrary(about["profiles"], beside=DEFAULT_ROOT),
    )
    reader = Reader("the running schedule")
    options = reader.section(Options, "options", about["schedule"]["options"])
    reader.finish()
    assert isinstance(options, Options)
    robots = {task: int(count) for task, count in about["slots"].items()}
    problem = (
        problem_from(factory).with_robots(robots).with_servers(servers or int(about["schedule"]["servers"]))
    )
    problem = with_best_engines(problem, library, options, time.monotonic)
    return choose(problem, library, options, factory.policies, time.monotonic).schedule.to_dict()
