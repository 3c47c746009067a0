"""One real arm node, and a bench that orders it about and sees what it says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rosa_interfaces.msg import ActionChunk, ArmCommand, ArmStatus, OperatorAudit
from sensor_msgs.msg import JointState

from rosa_client.motion.chunk_player import SILENT
from rosa_client.nodes.base.environment import prepare_environment
from rosa_contract.config.robot import load_robot
from tests.system.services import known_by

ROOT = Path(__file__).parents[3]
ROBOT = ROOT / "configs" / "robots" / "panda.yaml"
SPEC = load_robot(ROBOT)
WAIT_S = 30.0
STILL_REPORTS = 20  # at 100 Hz
LATCHED = QoSProfile(depth=50, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Bench:
    """Keeps every status and joint state with the time at which it arrived."""

    def __init__(self) -> None:
        self.node = Node("bench", namespace="robot")
        self.statuses: list[tuple[float, ArmStatus]] = []
        self.joints: list[tuple[float, np.ndarray]] = []
        self.audits: list[OperatorAudit] = []
        self.epoch, self.seq = time.time_ns(), 0
        self.lives = False
        self.arm_pid = 0
        self.width_m = 0.0  # of the gripper
        self.commands = self.node.create_publisher(ArmCommand, "arm_command", 50)
        subscribe = self.node.create_subscription
        subscribe(ArmStatus, "arm_status", lambda m: self.statuses.append((time.monotonic(), m)), 50)
        subscribe(JointState, "joint_states", self._on_joints, qos_profile_sensor_data)
        subscribe(OperatorAudit, "operator_audit", self.audits.append, LATCHED)
        self.node.create_timer(0.025, self._be_alive)

    @property
    def status(self) -> ArmStatus | None:
        return self.statuses[-1][1] if self.statuses else None

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        end_s = time.monotonic() + WAIT_S
        while not (found := condition()):
            assert time.monotonic() < end_s, f"waited in vain for {what}; newest: {self.status}"
            rclpy.spin_once(self.node, timeout_sec=0.05)
        return found

    def spin(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            rclpy.spin_once(self.node, timeout_sec=0.02)

    def order(self, kind: int, epoch: int | None = None, **fields: Any) -> ArmStatus:
        """Send a command, live on, and return the first status that knows of it."""
        if epoch is not None:
            self.epoch, self.seq = epoch, 0
        self.seq += 1
        self.lives = True
        self.until(lambda: self.commands.get_subscription_count() > 0, "an arm that listens")
        self.commands.publish(ArmCommand(epoch=self.epoch, seq=self.seq, kind=kind, **fields))
        return self.until(
            lambda: (s := self.status) and (s.last_epoch, s.last_seq) == (self.epoch, self.seq) and s,
            f"an answer to command {self.seq}",
        )

    def play(self, by_rad: float, seconds: float = 5.0, joint: int = 0, skip_s: float = 0.0) -> ArmStatus:
        """Turn one joint by `by_rad` from home. `skip_s`: begin so far into the chunk."""
        horizon = round(seconds / 0.05)
        rows = np.tile([*SPEC.home_rad, 0.04], (horizon, 1))
        rows[:, joint] += np.linspace(0.0, by_rad, horizon)
        names = [*SPEC.joints, "gripper"]
        chunk = ActionChunk(step_s=0.05, horizon=horizon, names=names, data=rows.ravel().tolist())
        return self.order(ArmCommand.PLAY, chunk=chunk, skip_s=skip_s)

    def play_until(self, condition: Callable[[], Any], what: str, by_rad: float, seconds: float = 5.0) -> Any:
        """Play, and again when this process was itself stalled for so long that the arm stopped, as it has to."""
        self.play(by_rad, seconds)

        def seen() -> Any:
            if not (found := condition()) and self.status.cut_short == SILENT:
                self.play(by_rad, seconds)
            return found

        return self.until(seen, what)

    def play_for(self, seconds: float, by_rad: float, of_s: float = 5.0) -> None:
        """Play a chunk of `of_s`, and return when it has played for so long; again as in `play_until`."""
        end_s = time.monotonic() + WAIT_S
        while True:
            first = self.play(by_rad, of_s)
            assert first.state == ArmStatus.PLAYING or first.cut_short == SILENT, first
            self.spin(seconds)
            if self.status.state == ArmStatus.PLAYING:
                return
            assert self.status.cut_short == SILENT and time.monotonic() < end_s, self.status

    def home(self) -> None:
        """Move there; again where this process was itself stalled for so long that the arm stopped on its way."""
        home: dict[str, Any] = {"joint_target_rad": list(SPEC.home_rad), "gripper_width_m": 0.08}

        def there() -> bool:
            if self.status.cut_short == SILENT:
                self.order(ArmCommand.MOVE_TO, **home)
            done = self.status.state == ArmStatus.HOLDING and self.status.settled
            return bool(done and self.status.cut_short != SILENT)

        self.order(ArmCommand.MOVE_TO, **home)
        self.until(there, "the arm at home")

    def call(self, kind: Any, name: str, request: Any) -> Any:
        client = self.node.create_client(kind, f"arm_node/{name}")
        self.until(client.service_is_ready, name)
        with known_by(self.node, "arm_node") as known:
            self.until(known, f"{name} to know its client")
        future = client.call_async(request)
        self.until(future.done, f"an answer of {name}")
        self.node.destroy_client(client)
        return future.result()

    def rest(self) -> None:
        """Until the arm has come to rest: the same joint positions again and again."""
        begin_s = time.monotonic()

        def still() -> bool:
            seen = [q for at_s, q in self.joints if at_s > begin_s][-STILL_REPORTS:]
            return len(seen) == STILL_REPORTS and float(np.ptp(np.array(seen), axis=0).max()) < 1e-9

        self.until(still, "the arm to come to rest")

    def moved_after(self, moment_s: float) -> float:
        """How far any joint moved in what was reported after a moment, rad."""
        seen = np.array([q for at_s, q in self.joints if at_s > moment_s])
        assert len(seen) > 20, "the arm goes on reporting"
        return float(np.ptp(seen, axis=0).max())

    def _be_alive(self) -> None:
        if self.lives:
            self.commands.publish(ArmCommand(epoch=self.epoch, seq=self.seq, kind=ArmCommand.ALIVE))

    def _on_joints(self, message: JointState) -> None:
        self.joints.append((time.monotonic(), np.array(message.position[:7])))
        self.width_m = float(sum(message.position[7:]))


@contextmanager
def arm(driver: str = "echo", robot: Path = ROBOT) -> Iterator[Bench]:
    """A running arm node with `driver` and a bench beside it."""
    prepare_environment()
    given = (f"robot:={robot}", f"driver:={driver}", "autostart:=true", "joint_state_rate_hz:=100.0")
    arguments = ["-r", "__ns:=/robot", *(word for one in given for word in ("-p", one))]
    command = [sys.executable, "-m", "rosa_client.nodes.robot.arm_node", "--ros-args", *arguments]
    rclpy.init()
    bench = Bench()
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        bench.until(lambda: bench.status or process.poll() is not None, "the arm node")
        assert process.poll() is None, f"the arm node ended with {process.poll()}"
        bench.arm_pid = process.pid
        yield bench
    finally:
        bench.node.destroy_node()
        rclpy.try_shutdown()
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def sender() -> subprocess.Popen[bytes]:
    """The stand-in for the runtime, as a process that can be killed or stopped."""
    command = [sys.executable, "-m", "tests.system.arm_safety.sender", str(ROBOT)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT)
