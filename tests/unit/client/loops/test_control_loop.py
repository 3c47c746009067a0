"""The control loop goes on or says why not: faults that pass, drivers that raise, drivers that do not come back."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms import ArmState, create_arm
from rosa_client.drivers.arms.echo import EchoArm
from rosa_client.loops.arm_watch import ArmWatch
from rosa_client.loops.control_loop import ControlLoop
from rosa_client.motion.arm_orders import Command, MoveTo, OrderId, PlayerState
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits
from rosa_contract.config.robot import RobotSpec, load_robot
from tests.unit.client.refusals import because

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")


class Arm(EchoArm):
    """An arm that can be told to report a fault, to raise, or not to come back."""

    def __init__(self, spec: RobotSpec = SPEC, seed: int = 0) -> None:
        super().__init__(spec, seed)
        self.fault = ""
        self.raises: Exception | None = None
        self.free = threading.Event()
        self.free.set()

    def read(self) -> ArmState:
        return replace(super().read(), fault=self.fault)

    def track(self, command: Command) -> None:
        self._may_fail()
        super().track(command)

    def idle(self, period_s: float) -> None:
        self._may_fail()

    def _may_fail(self) -> None:
        self.free.wait(10.0)
        if self.raises is not None:
            raise self.raises


class Rig:
    def __init__(self) -> None:
        self.arm = Arm()
        self.player = ChunkPlayer(MotionLimits.of(SPEC), 100.0)
        self.reports = 0
        self.loop = ControlLoop(self.arm, self.player, ArmWatch(SPEC), 100.0, self._count)

    def _count(self, now_s: float, state: ArmState) -> None:
        self.reports += 1

    def until(self, condition: Callable[[], Any]) -> None:
        end_s = time.monotonic() + 10.0
        while not condition():
            assert time.monotonic() < end_s, "the condition did not come true"
            time.sleep(0.005)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    made.loop.start()
    yield made
    made.arm.free.set()
    made.loop.stop()


def test_a_fault_that_passes_does_not_end_the_loop(rig: Rig) -> None:
    rig.arm.fault = "brake"
    rig.until(lambda: rig.player.fault == "brake")
    seen = rig.reports
    rig.until(lambda: rig.reports > seen + 5)
    refused = rig.loop.order(OrderId(1, 1), MoveTo(SPEC.safe_rad, 0.08)).result(5.0)
    assert because("arm_fault", refused) == "the arm cannot move: brake"
    rig.arm.fault = ""
    rig.until(lambda: rig.player.fault == "")
    assert rig.loop.order(OrderId(1, 2), MoveTo(SPEC.safe_rad, 0.08)).result(5.0) is None
    assert (rig.loop.trouble(), rig.loop.running) == ("", True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_driver_that_raises_ends_the_loop_and_the_emergency_stop_still_latches(rig: Rig) -> None:
    rig.arm.raises = ConnectionError("no controller")
    rig.until(lambda: rig.loop.trouble())
    assert rig.loop.trouble() == "the control loop ended: ConnectionError('no controller')"
    refused = rig.loop.order(OrderId(1, 1), MoveTo(SPEC.safe_rad, 0.08)).result(1.0)
    assert because("arm_fault", refused).startswith("the arm cannot move: the control loop ended")
    rig.loop.submit(lambda: rig.player.press_emergency_stop("test")).result(1.0)
    assert rig.player.emergency_stop.latched


def test_a_driver_that_blocks_is_reported_while_it_blocks(rig: Rig) -> None:
    rig.arm.free.clear()
    rig.until(lambda: rig.loop.trouble())
    assert re.search(r"the arm driver has blocked the control loop for \d\.\d s", rig.loop.trouble())
    pressed = rig.loop.submit(lambda: rig.player.press_emergency_stop("test"))
    rig.arm.free.set()
    assert pressed.result(5.0), "what came meanwhile is done before the next setpoint"
    rig.until(lambda: not rig.loop.trouble())


def test_what_was_withdrawn_while_the_driver_blocked_is_not_done_later(rig: Rig) -> None:
    rig.player.press_emergency_stop("test")
    rig.arm.free.clear()
    rig.until(lambda: rig.loop.trouble())
    released = rig.loop.submit(lambda: rig.player.release_emergency_stop("ada", "looks clear"))
    assert released.cancel()
    rig.arm.free.set()
    rig.until(lambda: not rig.loop.trouble())
    rig.loop.submit(lambda: None).result(5.0)
    assert rig.player.emergency_stop.latched


def test_signs_of_life_reach_the_player(rig: Rig) -> None:
    numbers = count(1)

    def goes_on() -> bool:
        """For longer than without a sign of life; told anew where this thread was not run for so long."""
        order = OrderId(1, next(numbers))
        goal_rad = SPEC.safe_rad if order.seq % 2 else SPEC.home_rad  # it never arrives by many broken moves
        assert rig.loop.order(order, MoveTo(goal_rad, 0.08)).result(5.0) is None
        end_s = time.monotonic() + 0.3
        while time.monotonic() < end_s:
            rig.loop.alive(order)
            time.sleep(0.02)
        return rig.player.state is PlayerState.MOVING

    rig.until(goes_on)
    rig.until(lambda: rig.player.state is PlayerState.HOLDING)
    assert rig.player.cut_short.startswith("no sign of life")


def test_a_driver_may_be_named_by_module_and_class() -> None:
    made = create_arm("tests.unit.client.loops.test_control_loop:Arm", SPEC, 0)
    assert isinstance(made, EchoArm)
    for name, says in (
        ("tests.unit.client.loops.test_control_loop:Leg", "expected module:Class"),
        ("no_such_package:Arm", "needs a package that is not installed"),
        (
            "panda",
            "there are echo, franka, mujoco, mujoco_body, mujoco_sort_parts, ros2_control, and module:Class",
        ),
    ):
        with pytest.raises(DriverError, match=says):
            create_arm(name, SPEC, 0)


def test_asking_for_the_pace_loads_no_module() -> None:
    """Loading one takes tens of ms in which the control thread does not run."""
    code = """
import sys
from tests.unit.client.loops.test_control_loop import Rig
rig = Rig()
rig.loop.start()
rig.until(lambda: rig.reports > 20)
known = set(sys.modules)
pace = rig.loop.pace()
rig.loop.stop()
assert pace.periods >= 20, pace
assert 0 <= pace.jitter_p50_ms <= pace.jitter_p99_ms, pace
print(sorted(set(sys.modules) - known))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", (done.stdout, done.stderr)
