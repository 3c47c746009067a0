"""Any robot of a robot file in MuJoCo, drawn from its chains: links, servos, and two fingers for each gripper.

What a robot looks like and weighs is not in its file, so every link is a capsule of 2 kg: enough to see whether a robot
file moves as it says, and to drive an arm that nobody has modelled. Without a scene around it.
`python -m rosa_sim.bodies ROBOT.yaml`: to each pose of the file and back, with what was measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_client.drivers.arms import ArmState
from rosa_client.motion.arm_orders import Command, MoveTo, OrderId, PlayerState
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits, pose_problems
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_guard import SetpointGuard
from rosa_contract.config.robot import Limb, RobotSpec, load_robot
from rosa_contract.kinematics.chain import Chain, fixed
from rosa_contract.rotations import matrix, written
from rosa_sim.cell.gl import BACKEND  # noqa: F401  before mujoco

import mujoco  # isort: skip

Array = NDArray[np.float64]

STIFFNESS, DAMPING = 4000.0, 400.0  # of the joints' servos: ours
GRIP_N_PER_M, GRIP_DAMPING = 2000.0, 60.0
MOVED_WITHIN_S = 60.0


def numbers(values: ArrayLike) -> str:
    """As MJCF writes them."""
    return " ".join(f"{value:.9g}" for value in np.asarray(values, np.float64).ravel())


def links(robot: RobotSpec, limb: Limb, hand: str = "") -> str:
    """The bodies of one arm as MJCF, one in the other; `hand` is in the tool's mounting frame, at the flange."""
    assert limb.chain is not None
    frames = fixed(limb.chain)
    made, closing = [], ""
    for index, frame in enumerate(frames[:-1]):
        joint, after = limb.joints.start + index, frames[index + 1][:3, 3]
        turn = written("quaternion_wxyz", frame[:3, :3])
        shape = ""
        if np.linalg.norm(after) > 1e-6:
            shape = (
                f'<geom type="capsule" size="0.035" fromto="0 0 0 {numbers(after)}" rgba="0.7 0.72 0.75 1"/>'
            )
        made.append(
            f'<body name="{limb.called(f"link{index + 1}")}" pos="{numbers(frame[:3, 3])}" quat="{numbers(turn)}"'
            f' gravcomp="1"><joint name="{robot.joints[joint]}" axis="0 0 1" damping="1" armature="0.1"'
            f' range="{robot.limits.position_min_rad[joint]} {robot.limits.position_max_rad[joint]}"/>'
            f'<inertial pos="{numbers(after / 2)}" mass="2" diaginertia="0.02 0.02 0.02"/>{shape}'
        )
        closing += "</body>"
    flange = frames[-1]
    spin = matrix("rpy", np.array([0.0, 0.0, limb.chain.tool_turn_rad]))
    turn = written("quaternion_wxyz", flange[:3, :3] @ spin)
    end = (
        f'<body name="{limb.called("hand")}" pos="{numbers(flange[:3, 3])}" quat="{numbers(turn)}" gravcomp="1">'
        f'<site name="{limb.called("tool")}" pos="0 0 {limb.chain.tool_offset_m}"/>{hand}</body>'
    )
    return "".join(made) + end + closing


def servos(names: Sequence[str]) -> str:
    """Position servos of these joints as MJCF."""
    return "".join(f'<position joint="{name}" kp="{STIFFNESS}" kv="{DAMPING}"/>' for name in names)


def _fingers(robot: RobotSpec, limb: Limb) -> str:
    """Two fingers, half the width from the middle each."""
    if not limb.gripper.exists:
        return ""
    assert limb.chain is not None
    made = ""
    for side, name in zip((1, -1), _finger_names(robot, limb), strict=True):
        made += (
            f'<body name="{name}" pos="0 0 {limb.chain.tool_offset_m}" gravcomp="1">'
            f'<joint name="{name}" type="slide" axis="0 {side} 0" limited="true"'
            f' range="{limb.gripper.min_m / 2} {limb.gripper.max_m / 2}" damping="5"/>'
            f'<geom type="box" size="0.008 0.004 0.02" pos="0 {side * 0.004} 0" mass="0.05"/></body>'
        )
    return made


def _finger_names(robot: RobotSpec, limb: Limb) -> list[str]:
    return [
        name for name in robot.finger_joints if name.startswith(f"{robot.name}_{limb.called('finger_joint')}")
    ]


def mjcf(robot: RobotSpec) -> str:
    """The robot alone. Raises `ValueError` for one with an arm that has no chain."""
    if missing := [limb.name for limb in robot.limbs if limb.chain is None]:
        raise ValueError(f"{robot.name}: chain: expected the links of arm {', '.join(missing) or robot.name}")
    bodies = "".join(links(robot, limb, _fingers(robot, limb)) for limb in robot.limbs)
    grips = "".join(
        f'<position joint="{name}" kp="{GRIP_N_PER_M}" kv="{GRIP_DAMPING}"/>' for name in robot.finger_joints
    )
    return f"""
<mujoco model="{robot.name}">
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="implicitfast"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>{bodies}</worldbody>
  <actuator>{servos(robot.joints)}{grips}</actuator>
</mujoco>"""


class Body:
    """A robot alone, in physics that runs in step with whoever steps it."""

    def __init__(self, robot: RobotSpec) -> None:
        self._robot = robot
        self._model = mujoco.MjModel.from_xml_string(mjcf(robot))
        self._data = mujoco.MjData(self._model)

        def joint(name: str) -> int:
            return int(self._model.joint(name).qposadr[0])

        self._joints = np.array([joint(name) for name in robot.joints])
        self._fingers = np.array([joint(name) for name in robot.finger_joints], int)
        self._speeds = np.array([self._model.joint(name).dofadr[0] for name in robot.joints])
        widths_m = [one.max_m for one in robot.grippers.values()]
        self._data.qpos[self._joints] = robot.home_rad
        self._data.qpos[self._fingers] = np.repeat(widths_m, 2) / 2
        self._told = np.array([*robot.home_rad, *np.repeat(widths_m, 2) / 2])
        self._data.ctrl[:] = self._told
        mujoco.mj_forward(self._model, self._data)

    def step(self, q_rad: Array, widths_m: Array, duration_s: float) -> None:
        """Track the setpoint `(dof,)` and `(grippers,)`, moving there in a line from the last one."""
        steps = max(1, round(duration_s / self._model.opt.timestep))
        start, self._told = self._told, np.concatenate([q_rad, np.repeat(widths_m, 2) / 2])
        ahead = (self._told - start) / duration_s * (DAMPING / STIFFNESS)
        ahead[len(q_rad) :] = 0.0
        for number in range(1, steps + 1):
            self._data.ctrl[:] = start + (self._told - start) * (number / steps) + ahead
            mujoco.mj_step(self._model, self._data)

    def stay(self, duration_s: float) -> None:
        """Time passes at the last setpoint."""
        for _ in range(max(1, round(duration_s / self._model.opt.timestep))):
            mujoco.mj_step(self._model, self._data)

    @property
    def joint_position(self) -> Array:
        """`(dof,)` rad."""
        return np.array(self._data.qpos[self._joints])

    @property
    def joint_velocity(self) -> Array:
        """`(dof,)` rad/s."""
        return np.array(self._data.qvel[self._speeds])

    @property
    def gripper_widths(self) -> Array:
        """`(grippers,)` m."""
        return np.asarray(self._data.qpos[self._fingers].reshape(-1, 2).sum(axis=1))

    def tool_m(self, limb: Limb) -> Array:
        """Where the tool of an arm is `(3,)`, m."""
        return np.array(self._data.site(limb.called("tool")).xpos)


class BodyArm:
    """Arm driver `mujoco_body`: any robot with chains, alone."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        self._body = Body(spec)

    def read(self) -> ArmState:
        body = self._body
        return ArmState(body.joint_position, body.joint_velocity, body.gripper_widths)

    def track(self, command: Command) -> None:
        self._body.step(command.q_rad, command.gripper_m, command.within_s)

    def idle(self, period_s: float) -> None:
        self._body.stay(period_s)

    def close(self) -> None:
        pass


def tried(robot: RobotSpec) -> list[str]:
    """Every pose of the file in turn, through player and last check, in physics; a line for each.

    Raises `RuntimeError` when an order or a setpoint is refused, or a pose is not reached.
    """
    body, limits, rate_hz = Body(robot), MotionLimits.of(robot), robot.control_rate_hz
    player, guard = ChunkPlayer(limits, rate_hz), SetpointGuard(limits, rate_hz)
    player.reset(body.joint_position, body.gripper_widths)
    guard.begin(body.joint_position)
    now_s, said = 0.0, []
    for number, (name, pose) in enumerate(robot.poses.items()):
        widths = limits.closed_m if number % 2 else limits.open_m
        if refusal := player.order(now_s, OrderId(1, number + 1), MoveTo(pose, widths)):
            raise RuntimeError(f"{name}: {refusal}")
        begun_s = now_s
        while player.state is not PlayerState.HOLDING or not player.settled or now_s - begun_s < 1.0:
            now_s += 1 / rate_hz
            player.alive(now_s, player.last)
            setpoint = player.update(now_s)
            command = guard.check(setpoint) if setpoint is not None else Refusal("nothing", "no setpoint")
            if isinstance(command, Refusal) or now_s - begun_s > MOVED_WITHIN_S:
                raise RuntimeError(f"{name}: {command}")
            body.step(command.q_rad, command.gripper_m, 1 / rate_hz)
        off_rad = float(np.abs(body.joint_position - np.array(pose)).max())
        tools = []
        for limb in robot.limbs:
            assert limb.chain is not None
            off_m = np.linalg.norm(
                body.tool_m(limb) - Chain(limb.chain).tool(body.joint_position[limb.joints])
            )
            tools.append(f"{limb.called('tool')} {1000 * off_m:.2f} mm from its chain")
        wide = ", ".join(f"{one:.3f}" for one in body.gripper_widths)
        grips = f", grippers {wide} m" if wide else ""
        said.append(f"{name}: {now_s - begun_s:.1f} s, {off_rad:.4f} rad off, {', '.join(tools)}{grips}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(prog="rosa_sim.bodies", description=__doc__)
    parser.add_argument("robot", help="robot file")
    robot = load_robot(parser.parse_args().robot)
    if problems := pose_problems(robot):
        raise SystemExit("\n".join(problems))
    print("\n".join(tried(robot)))


if __name__ == "__main__":
    main()
