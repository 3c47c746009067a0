"""The driver `franka` against franka-sim, a simulated FR3 that speaks the real protocol (FCI version 10) over loopback.

Run by `make test-franka` in an environment of its own. Times are those of the simulator, which runs slower than the
clock on a busy machine, so the tolerances are about places. What franka-sim cannot show is listed in docs/franka.md.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from franka_sim.testing import start_server, stop_server

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms.franka import FrankaArm
from tests.franka.robot import HERE_RAD, THERE_RAD, Arm, spec_at

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1"
OBJECT_M = 0.04  # between the simulated fingers
MOVING_RAD, RESTING_RAD = 0.08, 0.005  # how far a joint may be from its setpoint
HELD_RAD = 0.02  # how far an arm may drift that is held
MINUTES = float(os.environ.get("MINUTES", "1"))


@contextmanager
def simulated_arm(*options: str) -> Iterator[Any]:
    """A simulated FR3 on the ports of a real one (1337, 1338)."""
    for port in (1337, 1338):
        with socket.socket() as taken:
            taken.settimeout(0.5)
            assert taken.connect_ex((ADDRESS, port)) != 0, f"port {port} is in use: end the other simulator"
    os.environ["FR3_MJCF"] = str(Path(sys.prefix) / "fr3.xml")
    server = start_server(port=1337, extra_args=["--gripper-object-width", str(OBJECT_M), *options])
    try:
        yield server
    finally:
        stop_server(server)


@pytest.fixture
def simulator() -> Iterator[Any]:
    with simulated_arm() as server:
        yield server


@pytest.fixture
def arm(simulator: Any) -> Iterator[Arm]:
    made = Arm(ADDRESS)
    yield made
    made.close()


def until(condition: Callable[[], object], what: str, timeout_s: float = 20.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.02)


def fault(arm: Arm) -> str:
    return "" if arm.state is None else arm.state.fault


def off_rad(asked: npt.NDArray[np.float64], measured: npt.NDArray[np.float64]) -> float:
    return float(np.abs(asked - measured).max())


def test_joints_follow_their_setpoints_and_arrive(arm: Arm) -> None:
    for goal in (THERE_RAD, HERE_RAD, THERE_RAD):
        assert arm.move(goal) == ""
        arm.settle()
        until(lambda goal=goal: off_rad(goal, arm.driver.read().q_rad) < RESTING_RAD, "the arm arrives")
    assert {state.fault for _, state in arm.noted} == {""}
    furthest = max(off_rad(asked, state.q_rad) for asked, state in arm.noted)
    moved = max(off_rad(HERE_RAD, state.q_rad) for _, state in arm.noted)
    print(f"furthest from a setpoint {furthest:.4f} rad, from the start {moved:.3f} rad")
    assert moved > 0.25, "it moved at all"
    assert furthest < MOVING_RAD


def test_a_grasp_closes_on_the_object_and_lets_go(arm: Arm) -> None:
    for _ in range(2):
        assert arm.move(HERE_RAD, 0.0) == ""
        until(
            lambda: abs(arm.driver.read().gripper_m[0] - OBJECT_M) < 0.002, "the fingers close on the object"
        )
        assert arm.move(HERE_RAD, 0.08) == ""
        until(lambda: arm.driver.read().gripper_m[0] > 0.075, "the fingers open")
    assert fault(arm) == ""


@contextmanager
def robot_process() -> Iterator[subprocess.Popen[str]]:
    """A process with an arm that moves to and fro."""
    command = [sys.executable, "-m", "tests.franka.robot", ADDRESS]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str], condition: Callable[[dict[str, Any]], object], what: str) -> Any:
    """The next state that fulfils the condition."""
    end_s = time.monotonic() + 30.0
    assert process.stdout is not None
    for line in process.stdout:
        state = json.loads(line)
        if condition(state):
            return state
        assert time.monotonic() < end_s, f"{what}; the last state was {state}"
    raise AssertionError(f"the robot ended with {process.wait()} before {what}")


def moves(state: dict[str, Any]) -> bool:
    return not state["fault"] and 0.1 < abs(state["q_rad"][6] - HERE_RAD[6]) < 0.2


def test_a_reflex_stops_the_arm_and_a_recovery_lets_it_go_on() -> None:
    """The computer freezes for half a second in mid-motion: the arm stops itself with a reflex."""
    with simulated_arm("--enforce-comm-constraints") as _, robot_process() as process:
        said(process, moves, "the arm moves")
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        stopped = said(process, lambda state: state["fault"], "the reflex is reported")
        assert "stopped by a reflex: communication_constraints_violation" in stopped["fault"]
        assert "docs/franka.md" in stopped["fault"], "what to do"
        later = [said(process, lambda state: state["fault"], "the fault stays") for _ in range(20)]
        assert {state["fault"] for state in later} == {stopped["fault"]}
        where = later[0]["q_rad"]
        assert all(np.abs(np.subtract(state["q_rad"], where)).max() < HELD_RAD for state in later)
        assert process.stdin is not None
        # A busy machine may lose packets again at once, as an arm with a bad cable would.
        for _ in range(5):
            process.stdin.write("recover\n")
            process.stdin.flush()
            ended = said(process, lambda state: "recovering" not in state["fault"], "the recovery ends")
            if not ended["fault"]:
                break
        said(process, moves, "the arm moves again")


def test_a_process_that_dies_leaves_the_arm_held(simulator: Any) -> None:
    with robot_process() as process:
        last = said(process, moves, "the arm moves")
        process.send_signal(signal.SIGKILL)
        process.wait()
    after = Arm(ADDRESS)
    try:
        assert fault(after) == ""
        time.sleep(1.0)
        where = after.driver.read().q_rad
        assert off_rad(np.array(last["q_rad"]), where) < 0.1, "it stopped near where it was"
        time.sleep(2.0)
        assert off_rad(where, after.driver.read().q_rad) < HELD_RAD, "and stays there"
        assert after.move(HERE_RAD) == ""
        after.settle()
    finally:
        after.close()


def test_a_lost_connection_is_a_fault_that_a_recovery_mends() -> None:
    with simulated_arm() as server:
        arm = Arm(ADDRESS)
        server.process.kill()
        server.process.wait()
        until(lambda: "the connection to the arm is lost" in fault(arm), "the loss is reported")
        assert arm.move(HERE_RAD) == "arm_fault"
        state = arm.driver.read()
        assert state.age_s > 0.5, "what it measured gets older"
        arm.recover()
        until(lambda: "recovery failed: connect" in fault(arm), "nobody is there")
    with simulated_arm() as _:
        arm.recover()
        until(lambda: fault(arm) == "", "it is connected and held again")
        assert arm.move(HERE_RAD, 0.0) == ""
        until(lambda: abs(arm.driver.read().gripper_m[0] - OBJECT_M) < 0.002, "the hand is there as well")
        arm.close()


def test_nobody_there_is_one_line() -> None:
    with pytest.raises(DriverError, match=r"arm\.address: 127\.0\.0\.1: .*FCI"):
        FrankaArm(spec_at(ADDRESS), 0).connect("/fr3")


def test_the_arm_is_held_without_a_lost_state(arm: Arm) -> None:
    """For MINUTES (1; `make test-franka MINUTES=10` for the full run), moving slowly all the time.

    A state is lost when the library gives up waiting for it, after 1 s, which ends the motion and is a fault. How old
    the states were in between depends on the machine, and is only printed.
    """
    stale_s = spec_at(ADDRESS).max_sensor_age_ms / 1000  # the robot's nodes stop the arm then
    end_s = time.monotonic() + 60 * MINUTES
    goal, ages = THERE_RAD, [0.0]
    while time.monotonic() < end_s:
        if arm.player.settled:
            assert arm.move(goal) == "", fault(arm)
            goal = HERE_RAD if goal is THERE_RAD else THERE_RAD
        time.sleep(0.2)
        noted, arm.noted = arm.noted, []
        assert {state.fault for _, state in noted} <= {""}
        ages += [state.age_s for _, state in noted]
    stale = sum(age > stale_s for age in ages)
    print(
        f"{MINUTES:g} minutes: {len(ages)} periods, {stale} with a state older than {stale_s:g} s,", end=" "
    )
    print(
        f"99 % newer than {1000 * float(np.percentile(ages, 99)):.0f} ms, the oldest {1000 * max(ages):.0f} ms"
    )
    assert len(ages) > 60 * MINUTES * 50, "half of the control rate at least"
