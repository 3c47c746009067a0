"""What each transition of the arm, the cameras and the runtime does, asked for as nav2's lifecycle manager does."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
from action_msgs.msg import GoalStatus
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.action import ActionClient
from rclpy.qos import qos_profile_sensor_data
from rosa_interfaces.action import RunTask
from rosa_interfaces.msg import ActionChunk, ArmCommand, ArmStatus, RobotStatus
from rosa_interfaces.srv import ReleaseEmergencyStop
from sensor_msgs.msg import CompressedImage, JointState
from std_srvs.srv import Trigger

from rosa_client.motion.chunk_player import SILENT
from rosa_client.nodes.base.qos import LATEST
from rosa_contract.config.robot import load_robot
from tests.system.managed.manager import Manager
from tests.system.nodes.processes import CONFIG, PANDA, end, running, wait_for

pytestmark = pytest.mark.slow
BY_HAND = "autostart:=false"
NOBODY = "gateway:=tcp://127.0.0.1:1"
QUICK = "driver:=tests.system.nodes.quick_driver:QuickCameras"
SPEC = load_robot(PANDA.removeprefix("robot:="))
NODES = ("arm_node", "camera_node", "runtime_node")
CONFIGURE, ACTIVATE = Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE
DEACTIVATE, CLEANUP = Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP
MOVED_RAD = 0.05


@contextmanager
def managing(namespace: str, *names: str) -> Iterator[Manager]:
    rclpy.init()
    manager = Manager(f"/{namespace}", names)
    try:
        yield manager
    finally:
        manager.close()
        rclpy.shutdown()


class Arm:
    """Who sends orders to an arm node, lives on, and hears where the arm is."""

    def __init__(self, manager: Manager) -> None:
        self.status: Any = None
        self.q_rad: Any = None
        self.manager = manager
        self._seq = 0
        self.lives = True
        node = manager.node
        self._commands = node.create_publisher(ArmCommand, "arm_command", 50)
        node.create_subscription(ArmStatus, "arm_status", lambda m: setattr(self, "status", m), 10)
        node.create_subscription(JointState, "joint_states", self._on_joints, 10)
        node.create_timer(0.02, self._live)

    def turn(self, by_rad: float, within_s: float = 2.0) -> Any:
        """Send a chunk that turns the first joint; returns the first status that knows of it."""
        rows = np.tile([*SPEC.home_rad, 0.04], (40, 1))
        rows[:, 0] += np.linspace(0.0, by_rad, 40)
        names = [*SPEC.joints, "gripper"]
        chunk = ActionChunk(step_s=within_s / 40, horizon=40, names=names, data=rows.ravel().tolist())
        self._seq += 1
        assert self.manager.until(lambda: self._commands.get_subscription_count() > 0)
        self._commands.publish(ArmCommand(epoch=1, seq=self._seq, kind=ArmCommand.PLAY, chunk=chunk))
        assert self.manager.until(lambda: self.status is not None and self.status.last_seq == self._seq)
        return self.status

    def on_its_way(self, by_rad: float, within_s: float = 2.0) -> bool:
        """Wait until the arm has begun to turn; told again where this process was not run for a moment."""

        def moved() -> bool:
            if self.status.cut_short == SILENT:
                self.turn(by_rad, within_s)
            return bool(self.q_rad is not None and self.q_rad[0] - SPEC.home_rad[0] > MOVED_RAD)

        return self.manager.until(moved)

    def stands(self, seconds: float = 1.0) -> None:
        """The arm does not move for a while."""
        self.manager.spin(0.1)  # what was under way
        before = self.q_rad
        self.manager.spin(seconds)
        assert np.abs(self.q_rad - before).max() < 1e-6

    def latched(self) -> bool:
        self.status = None
        assert self.manager.until(lambda: self.status)
        return bool(self.status.emergency_stop)

    def _live(self) -> None:
        if self.lives:
            self._commands.publish(ArmCommand(epoch=1, seq=self._seq, kind=ArmCommand.ALIVE))

    def _on_joints(self, message: JointState) -> None:
        self.q_rad = np.array(message.position[:7])


def to(transition: int) -> ChangeState.Request:
    return ChangeState.Request(transition=Transition(id=transition))


def press(manager: Manager) -> None:
    assert manager.ask(Trigger, "arm_node/emergency_stop", Trigger.Request()).success


def release(manager: Manager) -> Any:
    request = ReleaseEmergencyStop.Request(decided_by="ada", why="the cell is clear")
    return manager.ask(ReleaseEmergencyStop, "arm_node/release_emergency_stop", request)


def test_an_inactive_arm_is_held_and_takes_no_order_and_activating_it_moves_nothing() -> None:
    with managing("held", "arm_node") as manager, running("arm_node", "held", PANDA, BY_HAND, "driver:=echo"):
        arm = Arm(manager)
        assert manager.change("arm_node", CONFIGURE)
        refused = arm.turn(0.5)
        assert refused.fault == "the arm node is inactive" and refused.state == ArmStatus.HOLDING
        arm.stands()
        assert manager.change("arm_node", ACTIVATE)
        arm.stands()
        assert not arm.status.fault
        playing = arm.turn(0.5)
        assert (playing.fault, playing.state) == ("", ArmStatus.PLAYING)
        assert arm.on_its_way(0.5)


def test_a_node_tells_who_started_it_that_it_is_active(tmp_path: Path) -> None:
    """By systemd's protocol, whoever made it active."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "told"))
        told.setblocking(False)
        words, to_it = (PANDA, BY_HAND, "driver:=echo"), {"NOTIFY_SOCKET": str(tmp_path / "told")}
        with managing("told", "arm_node") as manager, running("arm_node", "told", *words, **to_it):
            assert manager.change("arm_node", CONFIGURE)
            with pytest.raises(BlockingIOError):
                told.recv(100)
            assert manager.change("arm_node", ACTIVATE)
            assert told.recv(100) == b"READY=1"


def test_an_arm_that_is_deactivated_in_motion_comes_to_rest_and_does_not_go_on_by_itself() -> None:
    with (
        managing("rest", "arm_node") as manager,
        running("arm_node", "rest", PANDA, BY_HAND, "driver:=echo") as node,
    ):
        arm = Arm(manager)
        assert manager.change("arm_node", CONFIGURE) and manager.change("arm_node", ACTIVATE)
        arm.turn(0.5, 10.0)  # longer than a transition takes, whatever the machine does
        assert arm.on_its_way(0.5, 10.0)
        assert manager.change("arm_node", DEACTIVATE)
        arm.stands(0.5)
        assert arm.status.cut_short == arm.status.fault == "the arm_node was deactivated"
        assert arm.q_rad[0] - SPEC.home_rad[0] < 0.45, "the chunk was not played to its end"
        assert manager.change("arm_node", ACTIVATE)
        arm.stands()
        assert (arm.status.fault, arm.status.state) == ("", ArmStatus.HOLDING)
        assert "ERROR" not in end(node), "it is no fault to be inactive"


def test_an_emergency_stop_is_taken_in_every_state_and_no_transition_releases_it() -> None:
    with managing("stop", "arm_node") as manager, running("arm_node", "stop", PANDA, BY_HAND, "driver:=echo"):
        arm = Arm(manager)
        press(manager)  # nothing is configured yet
        assert manager.change("arm_node", CONFIGURE) and arm.latched()
        assert release(manager).accepted and not arm.latched()
        press(manager)  # inactive
        assert arm.latched()
        assert manager.change("arm_node", ACTIVATE) and arm.latched()
        assert "emergency stop" in arm.turn(0.5).fault
        for transition in (DEACTIVATE, CLEANUP, CONFIGURE, ACTIVATE):
            assert manager.change("arm_node", transition)
        assert arm.latched()
        assert "emergency stop" in arm.turn(0.5).fault
        arm.stands(0.3)
        for transition in (DEACTIVATE, CLEANUP):
            assert manager.change("arm_node", transition)
        assert release(manager).accepted, "by a person, also while no arm is connected"
        assert manager.change("arm_node", CONFIGURE) and not arm.latched()


def test_an_arm_that_cannot_be_configured_says_why_and_can_be_asked_again(tmp_path: Any) -> None:
    robot = tmp_path / "robot.yaml"
    with (
        managing("again", "arm_node") as manager,
        running("arm_node", "again", f"robot:={robot}", BY_HAND, "driver:=echo") as process,
    ):
        assert not manager.change("arm_node", CONFIGURE)
        assert manager.state("arm_node") == State.PRIMARY_STATE_UNCONFIGURED
        hardware = PANDA.removeprefix("robot:=")
        robot.symlink_to(hardware)
        assert manager.change("arm_node", CONFIGURE)
        said = end(process)
        assert f"cannot configure: {robot}" in said.replace("Error", "")


def test_inactive_cameras_publish_no_pictures_and_their_devices_are_let_go_at_clean_up() -> None:
    with (
        managing("eyes", "camera_node") as manager,
        running("camera_node", "eyes", PANDA, QUICK, BY_HAND) as process,
    ):
        heard: list[Any] = []
        topic = "front/image_raw/compressed"
        manager.node.create_subscription(CompressedImage, topic, heard.append, qos_profile_sensor_data)
        for _ in range(2):
            assert manager.change("camera_node", CONFIGURE)
            manager.spin(0.5)
            assert not heard
            assert manager.change("camera_node", ACTIVATE)
            assert manager.until(lambda: len(heard) > 2)
            assert manager.change("camera_node", DEACTIVATE)
            manager.spin(0.3)  # what was under way
            heard.clear()
            manager.spin(0.5)
            assert not heard
            assert manager.change("camera_node", CLEANUP)
            assert not manager.node.get_publishers_info_by_topic(f"/eyes/{topic}")
        end(process)


class Client:
    """A client of `run_task`, and what is said about the robot meanwhile."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._action = ActionClient(manager.node, RunTask, "run_task")

    def begin(self) -> Any:
        """A task that waits for its server; returns the future of its result."""
        assert self._manager.until(self._action.server_is_ready) and self._manager.knows("runtime_node")
        sent = self._action.send_goal_async(RunTask.Goal())
        assert self._manager.until(sent.done) and sent.result().accepted
        status: list[Any] = []
        here = self._manager.node.create_subscription(RobotStatus, "robot_status", status.append, LATEST)
        assert self._manager.until(lambda: status and status[-1].task == "pick_and_place")
        self._manager.node.destroy_subscription(here)
        return sent.result().get_result_async()

    def latched_status(self) -> Any:
        """What a late subscriber gets."""
        status: list[Any] = []
        self._manager.node.create_subscription(RobotStatus, "robot_status", status.append, LATEST)
        assert self._manager.until(lambda: status)
        self._manager.spin(0.3)
        return status[-1]


@pytest.mark.parametrize(
    ("transition", "cause", "reason"),
    [
        (DEACTIVATE, "deactivated", "the runtime_node was deactivated"),
        (Transition.TRANSITION_ACTIVE_SHUTDOWN, "shut_down", "the runtime_node was shut down"),
    ],
)
def test_a_task_ends_with_the_reason_when_its_runtime_is_taken_out_of_work(
    transition: int, cause: str, reason: str
) -> None:
    with (
        managing("goal", "runtime_node") as manager,
        running("runtime_node", "goal", PANDA, CONFIG, NOBODY) as process,
    ):
        client = Client(manager)
        result = client.begin()
        manager.change("runtime_node", transition)
        assert manager.until(result.done), "the goal never ended"
        assert result.result().status == GoalStatus.STATUS_ABORTED
        assert (result.result().result.outcome, result.result().result.reason) == ("aborted", reason)
        status = client.latched_status()
        assert (status.state, status.task, status.server_connected) == ("idle", "", False)
        assert (status.last_decision.action, status.last_decision.cause) == ("aborted", cause)
        said = end(process)
        assert f"is aborted: {reason}" in said


def test_a_runtime_that_was_paused_takes_the_next_task() -> None:
    with (
        managing("paused", "runtime_node") as manager,
        running("runtime_node", "paused", PANDA, CONFIG, NOBODY) as process,
    ):
        client = Client(manager)
        for _ in range(2):
            result = client.begin()
            assert manager.change("runtime_node", DEACTIVATE)
            assert manager.until(result.done)
            assert manager.change("runtime_node", ACTIVATE)
        result = client.begin()
        assert manager.change("runtime_node", DEACTIVATE) and manager.change("runtime_node", CLEANUP)
        assert manager.until(result.done)
        assert result.result().result.reason == "the runtime_node was deactivated"
        assert manager.change("runtime_node", CONFIGURE) and manager.change("runtime_node", ACTIVATE)
        client.begin()
        end(process)


def test_a_runtime_that_is_activated_again_at_once_still_sends_the_result_of_its_task() -> None:
    with (
        managing("twice", "runtime_node") as manager,
        running("runtime_node", "twice", PANDA, CONFIG, NOBODY) as process,
    ):
        client = Client(manager)
        for _ in range(3):
            result = client.begin()
            changes = manager.node.create_client(ChangeState, "runtime_node/change_state")
            assert manager.until(changes.service_is_ready) and manager.knows("runtime_node")
            asked = [changes.call_async(to(transition)) for transition in (DEACTIVATE, ACTIVATE)]
            for one in asked:
                assert manager.until(one.done) and one.result().success
            assert manager.until(result.done), "the goal never ended"
            assert result.result().result.reason == "the runtime_node was deactivated"
        end(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_task_ends_with_the_reason_when_the_process_of_its_runtime_ends(number: signal.Signals) -> None:
    with (
        managing("ended", "runtime_node") as manager,
        running("runtime_node", "ended", PANDA, CONFIG, NOBODY) as process,
    ):
        result = Client(manager).begin()
        process.send_signal(number)
        assert manager.until(result.done), "the goal never ended"
        assert result.result().status == GoalStatus.STATUS_ABORTED
        assert result.result().result.reason == "the runtime_node ends"
        process.communicate(timeout=15)


def test_nav2s_lifecycle_manager_brings_a_robot_up_and_pauses_resumes_and_shuts_it_down() -> None:
    with (
        managing("nav", *NODES) as manager,
        running("arm_node", "nav", PANDA, BY_HAND, "driver:=echo"),
        running("camera_node", "nav", PANDA, QUICK, BY_HAND),
        running("runtime_node", "nav", PANDA, CONFIG, NOBODY, BY_HAND) as runtime,
    ):
        assert manager.startup(), {name: manager.state(name) for name in NODES}
        bonds = dict(manager.bonds)
        manager.spin(3.0)
        assert not manager.check_bonds()
        assert all(len(bond.heard) > 5 for bond in bonds.values()), "heartbeats at 4 Hz"
        wait_for(runtime, "bonded with a lifecycle manager")
        assert manager.pause()
        assert all(bond.broken for bond in bonds.values()), "a node that is not active ends its bond"
        assert manager.resume() and not manager.check_bonds()
        assert manager.shutdown()
        assert [manager.state(name) for name in NODES] == [State.PRIMARY_STATE_FINALIZED] * 3


def test_a_node_that_dies_breaks_its_bond_and_the_manager_takes_the_others_down() -> None:
    with (
        managing("dies", "arm_node", "camera_node") as manager,
        running("arm_node", "dies", PANDA, BY_HAND, "driver:=echo"),
        running("camera_node", "dies", PANDA, QUICK, BY_HAND) as camera,
    ):
        assert manager.startup()
        camera.kill()
        camera.communicate()
        begun_s = time.monotonic()
        assert manager.until(lambda: any(bond.broken for bond in manager.bonds.values()))
        assert time.monotonic() - begun_s > 2.0, "by its silence"
        manager.names = ["arm_node"]  # nobody answers for the other
        assert manager.check_bonds() == ["camera_node"]
        assert manager.state("arm_node") == State.PRIMARY_STATE_UNCONFIGURED
