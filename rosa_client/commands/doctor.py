"""`rosa doctor ROBOT.yaml`: on the robot's machine, before the first motion. Nothing moves, nothing is published."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from rosa_client.connection.greeting import robot_id_of
from rosa_client.doctor.judges.arm import judge_address, judge_arm, judge_driver
from rosa_client.doctor.judges.finding import Finding, skipped, status_of, summary
from rosa_client.doctor.judges.gateway import judge_gateway, judge_keys
from rosa_client.doctor.judges.host import judge_host
from rosa_client.doctor.judges.needs import judge_needs
from rosa_client.doctor.judges.pictures import judge_pictures, not_asked
from rosa_contract.config.factory import load_factory
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.endpoint import MAX_PORT
from rosa_contract.say import say
from rosa_contract.wording import NEEDS_ROS

HARD_REAL_TIME = ("franka",)  # arm drivers whose 1 kHz loop runs on this machine


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """`rosa doctor`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="check a robot before its first motion: machine, network, arm, cameras, keys",
        description="Check everything that a robot needs before its first motion. Run it on the robot's machine;"
        " start the robot's nodes first to include cameras and arm. Nothing moves. Prints one line per"
        " check: ok, warn, fail or skipped, what was found, and what to do. Exit status: 0 no check"
        " failed, 1 a check failed, 2 wrong input.",
    )
    parser.add_argument("robot", help="robot file (YAML)")
    parser.add_argument(
        "--gateway", default="", metavar="ENDPOINT", help="server endpoint, such as tcp://gpu-box:5570"
    )
    parser.add_argument(
        "--config",
        default="",
        metavar="FILE",
        help="factory file, to check deadlines and what the models need",
    )
    parser.add_argument("--keys", default="", metavar="FOLDER", help="this robot's key folder")
    parser.add_argument(
        "--name", default="panda0", help="robot namespace, also its name at the server; default: panda0"
    )
    parser.add_argument(
        "--arm",
        type=_host_port,
        default="",
        metavar="HOST[:PORT]",
        help="address of the arm's own computer, which is contacted only if this is given",
    )
    parser.add_argument(
        "--recordings", default=".", metavar="FOLDER", help="recordings folder, to check its free disk space"
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=3.0, metavar="S", help="how long to listen to cameras, s"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: argparse.Namespace) -> int:
    """Raises `ConfigError` for a file that is wrong."""
    spec = load_robot(arguments.robot)
    tightest = tightest_call(arguments.config) if arguments.config else None
    findings: list[Finding] = []
    width = max(len(f"camera.{name}") for name in [*spec.cameras, "joint_states"])
    for finding in check(arguments, spec, tightest):
        findings.append(finding)
        if not arguments.json:
            say(finding.line(width))
    if arguments.json:
        checks = [dataclasses.asdict(finding) for finding in findings]
        say(
            json.dumps({"robot": arguments.robot, "fit": not status_of(findings), "checks": checks}, indent=2)
        )
    else:
        say(summary(findings))
    return status_of(findings)


def check(
    arguments: argparse.Namespace, spec: RobotSpec, tightest: tuple[str, float] | None
) -> Iterator[Finding]:
    """Every check in the order in which a person repairs things; a line comes as soon as it is known."""
    from rosa_client.doctor.probes.controllers import controllers_of, gripper_actions_of, manager_of
    from rosa_client.doctor.probes.driver import driver_problem
    from rosa_client.doctor.probes.host import HostClockWatch, host_fact
    from rosa_client.doctor.probes.needs import needs_fact

    watch = HostClockWatch()
    hard = spec.arm_driver in HARD_REAL_TIME
    yield judge_needs(needs_fact(arguments.config, arguments.robot) if arguments.config else None)
    yield from _server(arguments, tightest)
    yield judge_driver(spec.arm_driver, driver_problem(spec))
    yield from _address(arguments.arm, hard, is_franka(spec))
    controllers = controllers_of(arguments.robot, spec, arguments.name)
    manager = manager_of(arguments.robot, spec, arguments.name)
    actions = gripper_actions_of(arguments.robot, spec, arguments.name)
    yield from _robot(arguments, spec, controllers, manager, actions)
    yield from judge_host(host_fact(arguments.recordings, watch), hard)


def _server(arguments: argparse.Namespace, tightest: tuple[str, float] | None) -> Iterator[Finding]:
    from rosa_client.doctor.probes.gateway import gateway_fact, keys_fact

    name = robot_id_of(arguments.name)
    kept, keys = keys_fact(arguments.keys, name, arguments.gateway)
    asked = None
    if not arguments.gateway:
        yield skipped("gateway", "no_gateway", "no --gateway given")
    elif kept.problem:
        yield skipped("gateway", "bad_keys", "not asked without usable keys")
    else:
        asked = gateway_fact(arguments.gateway, name, keys)
        yield from judge_gateway(asked, tightest)
    yield judge_keys(kept, asked, name)


def _address(address: str, hard: bool, franka: bool) -> list[Finding]:
    """Only an address that was passed is connected to: a robot file may name another's."""
    if not address:
        return judge_address(None, hard, franka)
    from rosa_client.doctor.probes.address import FCI_PORT, address_fact

    host, _, port = address.partition(":")
    known = FCI_PORT if franka else None
    return judge_address(address_fact(host, int(port) if port else known), hard, franka)


def _robot(
    arguments: argparse.Namespace,
    spec: RobotSpec,
    controllers: Mapping[str, tuple[str, str]],
    manager: str,
    actions: Mapping[str, str],
) -> Iterator[Finding]:
    try:
        from rosa_client.doctor.probes.topics import listen
    except ImportError as error:
        why = f"{NEEDS_ROS} ({error})"
        yield skipped("arm", "no_ros", why)
        yield from (not_asked(name, why) for name in spec.cameras)
        return
    pictures, arm = listen(arguments.name, spec.cameras, controllers, actions, arguments.seconds, manager)
    yield from judge_arm(spec.arm_driver, spec.joints, arm, is_franka(spec))
    for fact in pictures:
        yield judge_pictures(fact, spec.cameras[fact.camera], spec.max_sensor_age_ms / 1000)


def tightest_call(config: str) -> tuple[str, float]:
    """The call with the shortest deadline of a factory file, and that deadline in ms. Raises `ConfigError`."""
    calls = [
        (component.slo_ms, f"{task}.{name}")
        for task, body in load_factory(config).tasks.items()
        for name, component in body.components.items()
    ]
    deadline_ms, call = min(calls)
    return call, deadline_ms


def is_franka(spec: RobotSpec) -> bool:
    """Whether the arm is one of Franka's, as its driver or what it uses of franka_ros2 says."""
    gripper = spec.arm.get("gripper")
    kind = gripper.get("kind") if isinstance(gripper, Mapping) else None
    return "franka" in (spec.arm_driver, kind) or bool(spec.arm.get("robot_state"))


def _host_port(text: str) -> str:
    if not text:
        return text  # the default is read like what is given
    host, colon, port = text.partition(":")
    possible = port.isascii() and port.isdigit() and 1 <= int(port) <= MAX_PORT
    if not host or (colon and not possible):
        raise argparse.ArgumentTypeError(f"expected HOST or HOST:PORT, got {text!r}")
    return text


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.5 <= value <= 600:
        raise argparse.ArgumentTypeError(f"expected seconds from 0.5 to 600, got {text}")
    return value
