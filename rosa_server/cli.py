"""The `rosa` command."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rosa_contract.config import SECTIONS, Factory, factory_from, load_factory
from rosa_contract.errors import ConfigError, ContractError
from rosa_contract.robot import RobotSpec, load_robot
from rosa_contract.strict import read_yaml

PLUGINS = ("rosa_server.scheduler.commands.plan", "rosa_server.scheduler.commands.profile")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 2 for wrong input, which is explained on standard error."""
    parser = argparse.ArgumentParser(
        prog="rosa", description="ROSA: serve robotics foundation models to a fleet of robots"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_check(commands)
    _add_keys(commands)
    _add_plugins(commands)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except ContractError as error:
        print(f"rosa {arguments.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # as in `rosa plan ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _add_serve(commands: Any) -> None:
    parser = commands.add_parser(
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
        help="with --schedule: folder with <hardware>/<model>.yaml, for admitting further robots",
    )
    parser.add_argument("--bind", default="", help="ZeroMQ endpoint for robots, instead of gateway.bind")
    parser.add_argument(
        "--insecure", action="store_true", help="allow other machines to connect without keys"
    )
    parser.set_defaults(run=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    from rosa_server.serving.server import serve

    factory, plan = load_factory(arguments.config), None
    if arguments.schedule:
        from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary
        from rosa_server.scheduler.running.handover import hand_over
        from rosa_server.scheduler.schedule import load_schedule

        library = ProfileLibrary(arguments.profiles or DEFAULT_ROOT)
        plan = hand_over(factory, load_schedule(arguments.schedule), arguments.schedule, library)
    return serve(factory, arguments.config, arguments.bind, arguments.insecure, plan)


def _add_check(commands: Any) -> None:
    parser = commands.add_parser("check", help="check a factory or robot file and print what it means")
    parser.add_argument("file", help="factory file or robot file (YAML)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    try:
        kind, content = load_any(arguments.file)
    except ConfigError as error:
        if not arguments.json:
            raise
        problems = [dataclasses.asdict(problem) for problem in error.problems]
        print(json.dumps({"file": arguments.file, "valid": False, "problems": problems}, indent=2))
        return 2
    if arguments.json:
        body = {"file": arguments.file, "valid": True, "kind": kind, "content": dataclasses.asdict(content)}
        print(json.dumps(body, indent=2, default=dict))
    else:
        print(f"{arguments.file}: a valid {kind} file")
        print("\n".join(_factory_lines(content) if isinstance(content, Factory) else _robot_lines(content)))
    return 0


def load_any(path: str | Path) -> tuple[str, Factory | RobotSpec]:
    """("factory" or "robot", what the file says). Raises `ConfigError`."""
    document = read_yaml(path)
    if not isinstance(document, dict):
        factory_from(document, str(path))  # raises `ConfigError`
    robot_keys = {field.name for field in dataclasses.fields(RobotSpec)}
    factory_like = any(key in SECTIONS for key in document) or any(
        isinstance(value, dict) and "components" in value for value in document.values()
    )
    if not factory_like and robot_keys & set(document):
        return "robot", load_robot(path)
    return "factory", load_factory(path)


def _factory_lines(factory: Factory) -> list[str]:
    cluster, gateway = factory.server_cluster, factory.gateway
    lines = [f"servers: {cluster.num_servers} x {cluster.gpu_type}", f"gateway: {gateway.bind}"]
    for entry in factory.robot_fleet:
        lines.append(f"robots: {entry.num_robots} on {entry.task}")
    for name, task in factory.tasks.items():
        lines.append(f"task {name}: an action every {task.pipeline.action_period_ms:g} ms")
        for key, component in task.components.items():
            rate = f", {component.freq_hz:g} Hz" if component.freq_hz else ""
            rule = f"{component.slo_ms:g} ms, else {component.fallback}"
            lines.append(f"  {key}: {component.model}{rate}, {rule}")
    used = {component.model for task in factory.tasks.values() for component in task.components.values()}
    for name in sorted(used):
        model = factory.models.get(name)
        how = (
            f"{model.backend}, {model.workers} worker(s)"
            if model
            else "no entry in `models`: can be planned, not served"
        )
        lines.append(f"model {name}: {how}")
    return lines


def _robot_lines(spec: RobotSpec) -> list[str]:
    speed = f"speed scale {spec.velocity_scale:g}" if spec.velocity_scale != 1 else "full speed"
    lines = [
        f"robot: {spec.name}, {len(spec.joints)} joints, control at {spec.control_rate_hz:g} Hz, {speed}"
    ]
    for name, camera in spec.cameras.items():
        lines.append(
            f"camera {name}: {camera.width}x{camera.height} px, {camera.encoding}, {camera.rate_hz:g} Hz"
        )
    limits = spec.limits
    for index, joint in enumerate(spec.joints):
        least, most = limits.position_min_rad[index], limits.position_max_rad[index]
        rates = (limits.velocity_rad_s, limits.acceleration_rad_s2, limits.jerk_rad_s3)
        units = ("rad/s", "rad/s^2", "rad/s^3")
        most_of = ", ".join(f"{rate[index]:g} {unit}" for rate, unit in zip(rates, units, strict=True))
        lines.append(f"joint {joint}: {least:g} .. {most:g} rad, {most_of}")
    for name, joints in spec.poses.items():
        lines.append(f"pose {name}: {', '.join(f'{angle:g}' for angle in joints)} rad")
    lines.append(f"gripper: {spec.gripper.min_m:g} .. {spec.gripper.max_m:g} m")
    if spec.workspace is None:
        lines.append("workspace: none; joints are limited, the places that the arm reaches are not")
    else:
        sides = zip("xyz", spec.workspace.min_m, spec.workspace.max_m, strict=True)
        lines.append(
            f"workspace: {', '.join(f'{axis} {least:g} .. {most:g}' for axis, least, most in sides)} m"
        )
    lines.append(f"drivers: arm {spec.arm_driver}, cameras {spec.camera_driver}")
    return lines


def _add_keys(commands: Any) -> None:
    parser = commands.add_parser("keys", help="make the keys that a server beyond loopback needs")
    parser.add_argument("folder", help="key folder, for gateway.curve_keys; made if missing")
    parser.add_argument("--robot", help="also make the key of this robot")
    parser.set_defaults(run=_keys)


def _keys(arguments: argparse.Namespace) -> int:
    from rosa_server.serving.access import make_keys

    made = make_keys(Path(arguments.folder), arguments.robot)
    for path in made:
        print(f"made {path}")
    if arguments.robot:
        secret = Path(arguments.folder) / "robots" / f"{arguments.robot}.key_secret"
        print(f"the robot needs a folder of its own with two files: robot.key_secret, moved from {secret},")
        print(f"and server.key, a copy of {Path(arguments.folder) / 'server.key'}")
    elif not made:
        print(f"{arguments.folder} already has its server key; --robot NAME makes a key for a robot")
    return 0


def _add_plugins(commands: Any) -> None:
    """Commands of optional parts; one that is not installed is not offered."""
    for module in _plugins():
        parser = module.add_parser(commands)
        if parser is not None:
            parser.set_defaults(run=module.main)


def _plugins() -> Iterator[Any]:
    """The scheduler's by name, and those of other packages, which the server must not import, by entry point.

    One of another package that cannot be imported is reported and left out, so that `rosa serve` still works.
    """
    for module_name in PLUGINS:
        yield importlib.import_module(module_name)
    for entry in sorted(entry_points(group="rosa.commands"), key=lambda entry: entry.name):
        try:
            yield entry.load()
        except ImportError as error:
            print(f"rosa: the command {entry.name!r} is not available: {error}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
