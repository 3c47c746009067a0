"""`rosa serve FACTORY.yaml`: the headless server."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rosa_contract.config.factory import CLUSTERS, Factory, load_factory
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.plan.nodes_file import NodesFile, load_nodes

if TYPE_CHECKING:
    from rosa_server.scheduler.placement.schedule import Schedule
    from rosa_server.scheduler.profiles.library import ProfileLibrary
    from rosa_server.serving.operations.live_state import LiveState
    from rosa_server.serving.server import Plan


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
        help="with --schedule: folder of extra profiles, <hardware>/<model>.yaml, used to admit more robots",
    )
    parser.add_argument(
        "--cluster", choices=CLUSTERS, help="how workers are started; overrides server_cluster.cluster"
    )
    parser.add_argument("--address", help="HOST:PORT of the Ray head; overrides server_cluster.address")
    parser.add_argument(
        "--nodes",
        metavar="FILE.yaml",
        help="with --schedule and --node: share the schedule among several gateways, one on each node of this"
        " file; if one fails, its robots move to another",
    )
    parser.add_argument("--node", metavar="NAME", help="with --nodes: name of this node")
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="ignore the state that a killed server on this port left behind (gateway.state)",
    )
    add_reach(parser)
    return parser


def add_reach(parser: argparse.ArgumentParser) -> None:
    """Who may reach the server, for `serve` and for `check`, which says what `serve` would refuse."""
    parser.add_argument("--bind", default="", help="ZeroMQ endpoint for robots; overrides gateway.bind")
    parser.add_argument(
        "--keys", default="", metavar="FOLDER", help="key folder; overrides gateway.curve_keys"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="accept connections from other machines without keys"
    )


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.cluster import maker
    from rosa_server.serving.base import log
    from rosa_server.serving.server import serve

    log.to_stderr()
    factory, plan, about = load_factory(arguments.config), None, dict[str, Any]()
    planner = None
    if arguments.keys:
        factory = replace(factory, gateway=replace(factory.gateway, curve_keys=arguments.keys))
    told = {"cluster": arguments.cluster, "address": arguments.address}
    changed = {name: value for name, value in told.items() if value is not None}
    factory = replace(factory, server_cluster=replace(factory.server_cluster, **changed))
    nodes = _nodes(arguments)
    state = _left_behind(factory, arguments)
    if arguments.schedule:
        from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary
        from rosa_server.scheduler.running.handover import planned_otherwise
        from rosa_server.scheduler.running.rescheduling import Rescheduler
        from rosa_server.scheduler.running.rescheduling import about as describe

        library = ProfileLibrary(arguments.profiles or DEFAULT_ROOT, beside=DEFAULT_ROOT)
        schedule, source, plan = _planned(factory, arguments.schedule, library, state)
        for line in planned_otherwise(factory, schedule):
            print(f"rosa serve: {source}: {line}; plan again for all of them", file=sys.stderr)
        about["schedule"] = describe(schedule, source)
        about["profiles"] = str(Path(arguments.profiles or DEFAULT_ROOT).absolute())
        planner = Rescheduler(factory, library, schedule, plan[1])
    about["factory_file"] = str(Path(arguments.config).absolute())
    make_cluster = maker(factory.server_cluster.cluster)
    reach = arguments.bind, arguments.insecure
    joined = None
    if nodes is not None:
        from rosa_server.serving.joining import as_planned, join

        placement = plan[0] if plan is not None else None
        begun = (schedule.to_dict(), source) if arguments.schedule else ()
        joined = join(factory, placement, nodes, arguments.nodes, arguments.node, *begun)
        plan = as_planned(joined)
        if planner is not None:
            planner.admission = plan[1]  # which counts nobody, so that it plans from what runs
    return serve(factory, arguments.config, make_cluster, *reach, plan, about, planner, state, joined)


def _nodes(arguments: argparse.Namespace) -> NodesFile | None:
    """The gateways that share the schedule; the address of this one is where robots connect, unless --bind says else.

    Raises `ConfigError`.
    """
    if not arguments.nodes or not arguments.node:
        if arguments.nodes or arguments.node:
            missing = "--node" if arguments.nodes else "--nodes"
            words = "is missing: a gateway of several needs the file of all nodes, and its own name"
            raise ConfigError(missing, [ConfigProblem("", "missing", words)])
        return None
    nodes = load_nodes(arguments.nodes)
    if arguments.node in nodes.nodes and not arguments.bind:
        arguments.bind = nodes.nodes[arguments.node].robots
    return nodes


def _left_behind(factory: Factory, arguments: argparse.Namespace) -> LiveState:
    """What people did to an earlier server of this port that was killed; from now on that of this one."""
    from rosa_server.serving.base import log
    from rosa_server.serving.operations.live_state import LiveState, origin_of
    from rosa_server.serving.watching.place import AUTO, WatchError, state_path

    setting = factory.gateway.state
    try:
        path = state_path(setting, arguments.bind or factory.gateway.bind)
    except WatchError as error:
        if setting != AUTO:
            raise
        log.warning("live_state_off", reason=str(error))
        path = None
    state = LiveState(path, origin_of(arguments.config, arguments.schedule or "", arguments.nodes or ""))
    if not arguments.fresh:
        state.load()
    return state


def _planned(
    factory: Factory, path: str, library: ProfileLibrary, state: LiveState
) -> tuple[Schedule, str, Plan]:
    """The schedule to begin with: that of the command line, or one that an earlier server got to."""
    from rosa_server.scheduler.placement.schedule import load_schedule, schedule_from
    from rosa_server.scheduler.running.handover import hand_over
    from rosa_server.serving.base import log

    if state.schedule is not None:
        source = state.schedule_file
        try:
            schedule = schedule_from(state.schedule, source)
            cluster = factory.server_cluster  # a schedule of more servers is an order to use more
            larger = replace(cluster, num_servers=max(cluster.num_servers, schedule.gpus))
            plan = hand_over(replace(factory, server_cluster=larger), schedule, source, library)
        except ConfigError as error:
            log.warning("live_state_not_used", path=source, reason=str(error))
            state.clear()
        else:
            return schedule, source, plan
    schedule = load_schedule(path)
    return schedule, path, hand_over(factory, schedule, path, library)
