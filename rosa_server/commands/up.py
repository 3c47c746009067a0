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
        help="start a gateway on each node of a Ray cluster, all of one schedule",
        description="Start `rosa serve --nodes` on every node of the nodes file, with the workers of that node, on its"
        " GPUs: all of them, or none. Where the nodes file names no servers, they are placed where their weights and"
        " free GPUs are. Ray starts a gateway again when its machine is back. Factory file, keys, profiles and weights"
        " have the same paths on all nodes; schedule and nodes file travel with the command. `rosa down` ends it.",
    )
    parser.add_argument("config", help="factory file")
    parser.add_argument(
        "--schedule", required=True, metavar="FILE.json", help="made by `rosa plan CONFIG --json`"
    )
    parser.add_argument("--nodes", required=True, metavar="FILE.yaml", help="the nodes, and where each is")
    parser.add_argument("--profiles", default="", help="folder with <hardware>/<model>.yaml")
    parser.add_argument(
        "--keys", default="", metavar="FOLDER", help="key folder, instead of gateway.curve_keys"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="allow robots of other machines to connect without keys"
    )
    add_address(parser)
    return parser


def add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--address", required=True, metavar="HOST:PORT", help="of Ray's head, as `ray start --head` says it"
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
