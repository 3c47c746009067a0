"""`rosa serve FACTORY.yaml`: the headless server."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rosa_contract.config.factory import CLUSTERS, load_factory


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "serve",
        help="run the server of a factory file until SIGTERM or Ctrl-C",
        description="Run the server of a factory file. With --schedule it starts the schedule's workers, gives every"
        " robot a slot in it, keeps its standby servers warm, and admits or refuses further robots. Without a schedule"
        " every model has the workers of its entry in `models`, and any number of robots may connect.",
    )
    parser.add_argument("config", help="factory file, such as configs/pick_place.yaml")
    parser.add_argument(
        "--schedule", metavar="FILE.json", help="run this schedule, made by `rosa plan CONFIG --json`"
    )
    parser.add_argument(
        "--profiles",
        help="with --schedule: folder with <hardware>/<model>.yaml, beside the shipped ones, for admitting more robots",
    )
    parser.add_argument(
        "--cluster", choices=CLUSTERS, help="who starts the workers, instead of server_cluster.cluster"
    )
    parser.add_argument("--address", help="HOST:PORT of Ray's head, instead of server_cluster.address")
    add_reach(parser)
    return parser


def add_reach(parser: argparse.ArgumentParser) -> None:
    """Who may reach the server, for `serve` and for `check`, which says what `serve` would refuse."""
    parser.add_argument("--bind", default="", help="ZeroMQ endpoint for robots, instead of gateway.bind")
    parser.add_argument(
        "--keys", default="", metavar="FOLDER", help="key folder, instead of gateway.curve_keys"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="allow other machines to connect without keys"
    )


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.cluster import maker
    from rosa_server.serving.server import serve

    factory, plan, about = load_factory(arguments.config), None, dict[str, Any]()
    planner = None
    if arguments.keys:
        factory = replace(factory, gateway=replace(factory.gateway, curve_keys=arguments.keys))
    told = {"cluster": arguments.cluster, "address": arguments.address}
    changed = {name: value for name, value in told.items() if value is not None}
    factory = replace(factory, server_cluster=replace(factory.server_cluster, **changed))
    if arguments.schedule:
        from rosa_server.scheduler.placement.schedule import load_schedule
        from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary
        from rosa_server.scheduler.running.handover import hand_over, planned_otherwise
        from rosa_server.scheduler.running.rescheduling import Rescheduler
        from rosa_server.scheduler.running.rescheduling import about as describe

        library = ProfileLibrary(arguments.profiles or DEFAULT_ROOT, beside=DEFAULT_ROOT)
        schedule = load_schedule(arguments.schedule)
        plan = hand_over(factory, schedule, arguments.schedule, library)
        for line in planned_otherwise(factory, schedule):
            print(f"rosa serve: {arguments.schedule}: {line}; plan again for all of them", file=sys.stderr)
        about["schedule"] = describe(schedule, arguments.schedule)
        about["profiles"] = str(Path(arguments.profiles or DEFAULT_ROOT).absolute())
        planner = Rescheduler(factory, library, schedule, plan[1])
    about["factory_file"] = str(Path(arguments.config).absolute())
    make_cluster = maker(factory.server_cluster.cluster)
    reach = arguments.bind, arguments.insecure
    return serve(factory, arguments.config, make_cluster, *reach, plan, about, planner)
