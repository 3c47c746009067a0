"""Translates between messages and orders: arm commands in, the arm's state and diagnostics out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rosa_interfaces.msg import ArmCommand, ArmStatus
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from rosa_client.drivers.arms import ArmState
from rosa_client.loops.control_loop import Pace
from rosa_client.motion.arm_orders import Hold, MoveTo, Order, Play, Unreadable
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_contract.config.robot import RobotSpec


def to_order(message: ArmCommand, spec: RobotSpec) -> Order:
    """The command as an order; `Unreadable` says what is wrong with it. Its sender counts with the scale of the robot
    file what has been played of a chunk."""
    if message.kind == ArmCommand.HOLD:
        return Hold()
    if message.kind == ArmCommand.MOVE_TO:
        return MoveTo(np.array(message.joint_target_rad), message.gripper_width_m)
    if message.kind != ArmCommand.PLAY:
        return Unreadable(f"kind {message.kind} is unknown; expected HOLD 0, PLAY 1, MOVE_TO 2 or ALIVE 3")
    chunk = message.chunk
    expected = list(spec.action_names)
    if list(chunk.names) != expected:
        return Unreadable(f"chunk: expected columns {expected}, got {list(chunk.names)}")
    if len(chunk.data) != chunk.horizon * len(expected):
        wanted = chunk.horizon * len(expected)
        return Unreadable(f"chunk: horizon {chunk.horizon} needs {wanted} numbers, got {len(chunk.data)}")
    actions = np.array(chunk.data, dtype=np.float64).reshape(chunk.horizon, len(expected))
    return Play(actions, chunk.step_s, message.skip_s, message.execute_s, spec.velocity_scale)


def joint_state(names: Sequence[str], state: ArmState, stamp: Time) -> JointState:
    """`names`: the joints, then the fingers of each gripper, which share its width."""
    message = JointState(name=list(names))
    message.header.stamp = stamp
    fingers = len(names) - len(state.q_rad)
    widths_m = np.atleast_1d(state.gripper_m)  # a driver of somebody's with one gripper may tell a number
    each = fingers // max(1, len(widths_m))
    message.position = [*state.q_rad.tolist(), *np.repeat(widths_m / max(1, each), each).tolist()]
    message.velocity = [*state.velocity_rad_s.tolist(), *[0.0] * fingers]
    if state.effort_nm is not None:
        # The fingers' force is not measured.
        message.effort = [*state.effort_nm.tolist(), *[math.nan] * fingers]
    return message


def arm_status(player: ChunkPlayer, now_s: float, refused: int, trouble: str, stamp: Time) -> ArmStatus:
    """What the player does. `trouble`: why setpoints no longer reach the arm; empty while they do."""
    return ArmStatus(
        header=Header(stamp=stamp),
        last_epoch=player.last.epoch,
        last_seq=player.last.seq,
        state=player.reported.value,
        remaining_s=player.remaining_s(now_s),
        settled=player.settled,
        fault=trouble or player.fault,
        cut_short=player.cut_short,
        emergency_stop=player.emergency_stop.latched,
        refused=refused,
    )


def control_diagnostics(
    name: str, player: ChunkPlayer, pace: Pace, rate_hz: float, refused: int, trouble: str
) -> DiagnosticStatus:
    """The control loop: what is wrong with it, and its timing."""
    level, text = DiagnosticStatus.OK, player.state.name.lower()
    if trouble:
        level, text = DiagnosticStatus.ERROR, trouble
    elif player.emergency_stop.latched:
        pressed_by = player.emergency_stop.pressed_by
        level, text = DiagnosticStatus.ERROR, f"the emergency stop is latched (pressed by {pressed_by})"
    elif player.fault:
        level, text = DiagnosticStatus.ERROR, player.fault
    elif player.cut_short:
        level, text = DiagnosticStatus.WARN, f"the last order was cut short: {player.cut_short}"
    values = {
        "control_rate_hz": f"{rate_hz:g}",
        "jitter_p50_ms": f"{pace.jitter_p50_ms:.3f}",
        "jitter_p99_ms": f"{pace.jitter_p99_ms:.3f}",
        "work_p99_ms": f"{pace.work_p99_ms:.3f}",
        "schedule_restarts": str(pace.restarts),
        "commands_refused": str(refused),
        "velocity_scale": f"{player.velocity_scale:g}",
    }
    pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
    return DiagnosticStatus(level=level, name=f"{name}: control", message=text, values=pairs)
