"""Setpoints as one message: positions in the robot's order, times after the first."""

from __future__ import annotations

import numpy as np

from rosa_client.nodes.robot.setpoint_log import trajectory


def test_each_setpoint_has_its_time_after_the_first() -> None:
    sent = [
        (7.0, np.array([0.1, 0.2]), np.array([0.04])),
        (7.01, np.array([0.3, 0.4]), np.array([0.05])),
        (8.5, np.array([0.5, 0.6]), np.array([0.06])),
    ]
    message = trajectory(["a", "b", "gripper"], sent)
    assert list(message.joint_names) == ["a", "b", "gripper"]
    assert [list(point.positions) for point in message.points] == [
        [0.1, 0.2, 0.04],
        [0.3, 0.4, 0.05],
        [0.5, 0.6, 0.06],
    ]
    times = [(one.time_from_start.sec, one.time_from_start.nanosec) for one in message.points]
    assert times == [(0, 0), (0, 10_000_000), (1, 500_000_000)]


def test_a_robot_without_a_gripper_has_joints_only() -> None:
    message = trajectory(["a", "b"], [(7.0, np.array([0.1, 0.2]), np.zeros(0))])
    assert list(message.points[0].positions) == [0.1, 0.2]
