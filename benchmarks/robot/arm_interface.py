"""How setpoints best reach a ros2_control arm: streamed trajectory points, or positions of a forward controller.

    python -m benchmarks.robot.arm_interface [--seconds 15] [--live]

The setpoints of a real motion (random targets within the joint limits, through the setpoint filter, 100 a second) go to
the simulated controllers: in simulated time, each message 0.3 to 2 ms under way and one in a hundred 10 ms late; with
`--live` by the driver of the product to a process of its own, over ROS 2. Compared with what was asked for: the delay
of the command that the controller gives the arm, the error that remains when the delay is taken out, and how rough the
command is. A Franka ends a motion with a reflex when its command asks for more than its acceleration limit, so the
updates that do are counted; it has a low-pass filter and a rate limiter of its own before that, which the simulation
has not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks import ROOT
from benchmarks.robot.arm_interface_report import report
from rosa_client.drivers.arms.ros2_control import Ros2ControlArm
from rosa_client.drivers.arms.ros2_control_rules import waypoints
from rosa_client.motion.arm_orders import Command, Setpoint
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.setpoint_filter import SetpointFilter
from rosa_client.motion.setpoint_guard import SetpointGuard
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.robot.arm_node import keep_apart
from rosa_contract.config.arms import arm_settings
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_sim.controller.following import Point
from rosa_sim.controller.node import UPDATE_RATE_HZ
from rosa_sim.controller.panda import SimulatedPanda

ROBOT = ROOT / "configs" / "robots" / "panda_ros2_control.yaml"
UNDER_WAY_S = (0.0003, 0.002)
LATE_S, LATE_SHARE = 0.010, 0.01
TARGET_EVERY_S = 0.4  # as often as an action chunk ends
REACH_RAD = 0.25
LONGEST_DELAY_S = 0.2


@dataclass(frozen=True)
class Variant:
    """One way to send setpoints, and the controller's parameter `interpolate_from_desired_state`."""

    command: str
    lookahead_ms: float = 0.0
    from_desired: bool = False
    smooth: bool = False

    @property
    def label(self) -> str:
        if self.command == "forward_position":
            return "forward position"
        begin = "desired" if self.from_desired else "measured"
        return f"{'smooth ' if self.smooth else ''}trajectory, {self.lookahead_ms:g} ms ahead, from {begin}"


VARIANTS = (
    Variant("forward_position"),
    *(
        Variant("joint_trajectory", ahead, from_desired, smooth)
        for from_desired in (True, False)
        for smooth in (True, False)
        for ahead in (10, 20, 30, 50)
    ),
)


def motion(spec: RobotSpec, seconds: float) -> list[Command]:
    """Commands, one a control period: from home from one random target to the next."""
    rng = np.random.default_rng(7)
    path = SetpointFilter(spec.limits, spec.control_rate_hz)
    home = np.array(spec.home_rad)
    path.reset(home)
    guard = SetpointGuard(MotionLimits(spec.limits, [spec.gripper]), spec.control_rate_hz)
    guard.begin(home)
    commands, target = [], home
    per_target = round(TARGET_EVERY_S * spec.control_rate_hz)
    for index in range(round(seconds * spec.control_rate_hz)):
        if index % per_target == 0:
            target = home + rng.uniform(-REACH_RAD, REACH_RAD, len(home))
        q_rad = path.step(target)
        command = guard.check(Setpoint(q_rad, np.array([spec.gripper.max_m]), path.goes_to, path.stop_s))
        assert isinstance(command, Command), command
        commands.append(command)
    return commands


def asked(commands: Sequence[Command]) -> np.ndarray:
    """Their setpoints (n, dof), rad."""
    return np.array([command.q_rad for command in commands])


def send(spec: RobotSpec, commands: Sequence[Command]) -> np.ndarray:
    """Send them with the product's driver; returns when each of them was to be reached, s."""
    period_s = 1 / spec.control_rate_hz
    arm = Ros2ControlArm(spec, 0)
    arm.connect("/bench")
    try:
        reached_s = []
        next_s = time.monotonic() + 0.1
        for command in commands:
            time.sleep(max(0.0, next_s - time.monotonic()))
            now_s = time.monotonic()
            arm.track(command)
            reached_s.append(now_s + period_s)
            if fault := arm.read().fault:
                raise RuntimeError(f"the arm reports: {fault}")
            next_s += period_s
        time.sleep(0.2)
        return np.array(reached_s)
    finally:
        arm.close()


def in_simulated_time(variant: Variant, seconds: float) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One variant without processes: its measures and its curves, the same on every machine."""
    spec = load_robot(ROBOT)
    settings = replace(
        arm_settings(str(ROBOT), spec.arm_driver, spec.arm),
        lookahead_s=max(variant.lookahead_ms / 1000, 1e-3),
        smooth=variant.smooth,
    )
    forward = variant.command == "forward_position"
    panda = SimulatedPanda(0, spec.joints, forward, variant.from_desired)
    rng = np.random.default_rng(11)
    period_s, update_s = 1 / spec.control_rate_hz, 1 / UPDATE_RATE_HZ
    commands = motion(spec, seconds)
    sent_s = np.arange(len(commands)) * period_s
    under_way_s = rng.uniform(*UNDER_WAY_S, len(commands)) + LATE_S * (rng.random(len(commands)) < LATE_SHARE)
    arrives_s = np.maximum.accumulate(sent_s + under_way_s)
    next_one, curve = 0, []
    for step in range(round(seconds / update_s)):
        now_s = step * update_s
        while next_one < len(commands) and arrives_s[next_one] <= now_s:
            if forward:
                panda.positions(commands[next_one].q_rad.tolist())
            else:
                way = waypoints(settings, commands[next_one])
                points = [Point(one.q_rad, one.velocity_rad_s, one.after_s) for one in way]
                panda.trajectory(arrives_s[next_one], spec.joints, points)
            assert not panda.refused, panda.refused
            next_one += 1
        panda.update(now_s, update_s)
        curve.append((now_s, panda.command_rad, panda.world.joint_position))
    times_s, commanded, positions = zip(*curve, strict=True)
    curves = {
        "time_s": np.array(times_s),
        "command_rad": np.array(commanded),
        "position_rad": np.array(positions),
        "asked_s": sent_s + period_s,
        "asked_rad": asked(commands),
    }
    return measures(spec, curves), curves


def live(variant: Variant, seconds: float, folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One variant with real processes: its measures and its curves."""
    controller = "forward_position_controller" if variant.command == "forward_position" else "jtc"
    arm: dict[str, str | float] = {
        "namespace": "hardware",
        "command": variant.command,
        "controller": controller,
        "lookahead_s": max(variant.lookahead_ms / 1000, 1e-3),
        "max_following_error_rad": 1.0,
        "smooth": variant.smooth,
    }
    robot, trace = folder / "robot.yaml", folder / "trace.npz"
    robot.write_text(yaml.safe_dump({"extends": str(ROBOT), "arm": arm}))
    spec = load_robot(robot)
    given = {
        "robot": robot,
        "trace": trace,
        "interpolate_from_desired_state": str(variant.from_desired).lower(),
    }
    command = [sys.executable, "-m", "rosa_sim.controller.node", "--ros-args", "-r", "__ns:=/bench"]
    for name, value in given.items():
        command += ["-p", f"{name}:={value}"]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        commands = motion(spec, seconds)
        reached_s = send(spec, commands)
    finally:
        process.terminate()
        process.wait(timeout=10)
    with np.load(trace) as found:
        curves = {name: found[name] for name in found.files}
    curves |= {"asked_s": reached_s, "asked_rad": asked(commands)}
    return measures(spec, curves), curves


def measures(spec: RobotSpec, curves: dict[str, np.ndarray]) -> dict[str, Any]:
    """Delay, error and roughness of the command (and of the arm) against what was asked for."""
    asked_s, asked, time_s = curves["asked_s"], curves["asked_rad"], curves["time_s"]
    inside = (time_s > asked_s[0] + LONGEST_DELAY_S) & (time_s < asked_s[-1])
    at_s = time_s[inside]
    step_s = float(np.median(np.diff(time_s)))
    found: dict[str, Any] = {}
    for name in ("command_rad", "position_rad"):
        curve = curves[name][inside]
        errors = {}
        for delay_ms in range(int(LONGEST_DELAY_S * 1000)):
            before = at_s - delay_ms / 1000
            wanted = np.column_stack([np.interp(before, asked_s, asked[:, j]) for j in range(asked.shape[1])])
            errors[delay_ms] = float(np.sqrt(np.mean((curve - wanted) ** 2)))
        delay_ms = min(errors, key=lambda key: errors[key])
        velocity = np.diff(curve, axis=0) / step_s
        acceleration = np.diff(velocity, axis=0) / step_s
        jerk = np.diff(acceleration, axis=0) / step_s
        over = np.abs(acceleration) > np.array(spec.limits.acceleration_rad_s2)
        kind = name.removesuffix("_rad")
        found[kind] = {
            "delay_ms": delay_ms,
            "error_mrad": errors[delay_ms] * 1000,
            "acceleration_rms_rad_s2": float(np.sqrt(np.mean(acceleration**2))),
            "jerk_rms_rad_s3": float(np.sqrt(np.mean(jerk**2))),
            "over_acceleration_limit_percent": float(over.any(axis=1).mean() * 100),
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="of motion, for each variant")
    parser.add_argument("--live", action="store_true", help="with real processes; writes no result")
    arguments = parser.parse_args()
    prepare_environment()
    # As the arm node does.
    keep_apart()
    sys.setswitchinterval(0.0005)
    rows, curves = [], []
    print(
        f"{'':46} {'delay ms':>9} {'error mrad':>11} {'jerk rms':>9} {'over limit %':>13} {'arm delay ms':>13}"
    )
    for variant in VARIANTS:
        if arguments.live:
            with tempfile.TemporaryDirectory() as folder:
                found, curve = live(variant, arguments.seconds, Path(folder))
        else:
            found, curve = in_simulated_time(variant, arguments.seconds)
        rows.append({"label": variant.label, **asdict(variant), **found})
        curves.append(curve)
        made = found["command"]
        print(
            f"{variant.label:46} {made['delay_ms']:9d} {made['error_mrad']:11.2f} {made['jerk_rms_rad_s3']:9.0f}"
            f" {made['over_acceleration_limit_percent']:13.1f} {found['position']['delay_ms']:13d}",
            flush=True,
        )
    if arguments.live:
        return 0
    report(rows, curves, arguments.seconds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
