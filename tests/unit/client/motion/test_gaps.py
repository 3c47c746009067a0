"""A control loop that stands still for a while, as on a busy machine: its arm's controller goes on meanwhile.

What the controller is told afterwards must not be faster than what was ordered.
"""

from __future__ import annotations

import numpy as np
import pytest

from rosa_client.motion.arm_orders import Command, Hold, MoveTo, OrderId
from rosa_client.motion.limits import MotionLimits
from tests.unit.client.motion.hostile_arms import (
    HOME,
    PERIOD_S,
    SPEC,
    SPEED,
    ForwardPosition,
    Franka,
    HostileArm,
    OwnDriver,
    Ros2Control,
    in_a_loop,
)

MOTION = MotionLimits.of(SPEC)
RATE_HZ = SPEC.control_rate_hz
THERE = HOME + np.array([0.25, 0.2, 0.15, -0.2, 0.2, 0.2, 0.25])
GAPS_S = (0.02, 0.04, 0.06, 0.07, 0.1, 0.15, 0.2, 0.3, 0.9)
# Of the joints' limits. The arm works at 0.3 of them; a controller that keeps to a time catches up after a short gap.
MAX_SHARE = 0.55


class Rig:
    """An arm under way, the loop that moves it, and how fast its controller was told to go."""

    def __init__(self, arm: HostileArm) -> None:
        self.arm = arm
        self.player, self.loop = in_a_loop(arm)
        self.share = 0.0  # greatest speed told, of the joints' limits
        self._told = arm.told[-1]
        self._due_s = arm.now_s
        assert self.player.order(arm.now_s, OrderId(1, 1), MoveTo(THERE, 0.04)) is None

    def run(self, seconds: float) -> None:
        """The loop runs; after a gap it catches up as it does in its thread."""
        end_s = self.arm.now_s + seconds
        while self.arm.now_s < end_s:
            self._due_s = self.loop.begins_s(self._due_s, self.arm.now_s)
            while self._due_s <= self.arm.now_s + 1e-9:
                self.player.alive(self.arm.now_s, self.player.last)
                self.loop.period(self.arm.now_s)
                self._due_s += PERIOD_S
            self.stand_still(PERIOD_S)

    def stand_still(self, seconds: float) -> None:
        """Time passes for the controller alone."""
        for _ in range(round(seconds / PERIOD_S)):
            self.arm.pass_time()
            for told in self.arm.told:
                speed = np.abs(told - self._told) / self.arm.tick_s
                self.share = max(self.share, float((speed / SPEED).max()))
                self._told = told


@pytest.mark.parametrize("kind", [Ros2Control, ForwardPosition, Franka, OwnDriver])
@pytest.mark.parametrize("gap_s", GAPS_S)
def test_after_a_gap_in_its_commands_no_arm_is_told_to_go_faster(
    kind: type[HostileArm], gap_s: float
) -> None:
    for before_s in (0.15, 0.3):
        rig = Rig(kind())
        rig.run(before_s)
        rig.stand_still(gap_s)
        rig.run(2.0)
        assert rig.share <= MAX_SHARE, f"gap after {before_s} s"
        assert (rig.player.fault, rig.player.cut_short) == ("", "")
        assert rig.arm.true_rad == pytest.approx(THERE, abs=1e-3), "it goes on to where it was told to be"


def test_an_arm_at_rest_is_told_the_same_after_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(Ros2Control())
    rig.player.order(rig.arm.now_s, OrderId(1, 2), Hold())
    rig.run(0.5)
    stood = rig.arm.true_rad
    rig.stand_still(0.5)
    sent: list[Command] = []
    track = rig.arm.track
    monkeypatch.setattr(rig.arm, "track", lambda command: (sent.append(command), track(command))[1])
    rig.run(0.1)
    assert len(sent) == 10, "at once: it has nothing to wait for"
    assert rig.arm.true_rad == pytest.approx(stood, abs=1e-9)


def test_a_stop_during_a_gap_is_kept() -> None:
    rig = Rig(Ros2Control())
    rig.run(0.3)
    rig.stand_still(0.1)
    rig.player.press_emergency_stop("test")
    rig.run(0.3)
    stood = rig.arm.true_rad
    rig.run(2.0)
    assert rig.arm.true_rad == pytest.approx(stood, abs=1e-6)
    assert rig.share <= MAX_SHARE
