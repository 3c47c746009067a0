"""`rosa up FACTORY.yaml`: a gateway on each node of a Ray cluster, all of one schedule."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from rosa_contract.config.factory import load_factory
from rosa_server.plan.nodes_file import load_nodes


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "up",
        help="start gateways that share one schedule on the nodes of a Ray cluster",
        description="Start `rosa serve --nodes` on every node of the nodes file, with that node's workers on its"
        " GPUs. Either all start or none does. Servers that the nodes file does not place go where their"
        " weights and free GPUs are. Ray restarts a gateway when its machine comes back. Factory file,"
        " keys, profiles and weights must be at the same paths on all nodes; the schedule and the nodes"
        " file are sent along. Stop everything with `rosa down`.",
    )
    parser.add_argument("config", help="factory file")
    parser.add_argument(
        "--schedule", required=True, metavar="FILE.json", help="schedule made by `rosa plan CONFIG --json`"
    )
    parser.add_argument(
        "--nodes", required=True, metavar="FILE.yaml", help="nodes file: the nodes and their addresses"
    )
    parser.add_argument("--profiles", default="", help="folder of profiles, <hardware>/<model>.yaml")
    parser.add_argument(
        "--keys", default="", metavar="FOLDER", help="key folder; overrides gateway.curve_keys"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="accept robots on other machines without keys"
    )
    add_address(parser)
    return parser


def add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--address",
        required=True,
        metavar="HOST:PORT",
        help="address of the Ray head, as printed by `ray start --head`",
    )


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.cluster.on_ray.gateways import bring_up
    from rosa_server.scheduler.placement.schedule import load_schedule
    from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary
    from rosa_server.scheduler.running.handover import hand_over

    config, schedule = Path(arguments.config).absolute(), Path(arguments.schedule).absolute()
    factory = load_factory(config)
    keys = str(Path(arguments.keys).absolute()) if arguments.keys else ""
    library = ProfileLibrary(arguments.profiles or DEFAULT_ROOT, beside=DEFAULT_ROOT)
    placement, _ = hand_over(factory, load_schedule(schedule), str(schedule), library)
    nodes = load_nodes(arguments.nodes)
    nodes = replace(nodes, keys=nodes.keys or keys or factory.gateway.curve_keys)
    words, common = [str(config), "--cluster", "local"], [str(config)]
    for option, value in (("--keys", keys), ("--profiles", arguments.profiles)):
        if value:
            words += [option, str(Path(value).absolute())]
            common.append(str(Path(value).absolute()))
    if nodes.keys:
        common.append(nodes.keys)
    words += ["--insecure"] * arguments.insecure
    told = (arguments.nodes, schedule, common, words)
    about = bring_up(arguments.address, factory, placement, nodes, *told)
    for name, one in about.items():
        print(f"{name}: ready for robots on {nodes.nodes[name].robots}; its log there: {one.get('log', '?')}")
    return 0
