"""The nodes of one simulated robot as real processes: what is ordered is done, refused or stopped, and recorded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.srv import GetState
from mcap.reader import make_reader
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rosa_interfaces.msg import ActionChunk, ArmCommand, ArmStatus
from rosa_interfaces.srv import ResetScene
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from std_srvs.srv import Trigger

from rosa_client.bringup.bringup import Bringup, parse
from rosa_client.bringup.graph import Robot
from rosa_client.motion.chunk_player import SILENT
from rosa_client.motion.limits import JOINT_TOLERANCE_RAD
from rosa_client.recording.bag import read
from rosa_contract.config.robot import load_robot
from rosa_contract.wire.images import EncodedImage, decode_image
from rosa_sim.cell.layout.hardware import cell
from tests.system.domains import own_domain
from tests.system.services import known_by, node_of

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
SPEC = load_robot(ROOT / "configs" / "robots" / "panda.yaml")
WAIT_S = 30.0


class Person:
    """Looks at a robot's topics and orders its arm about, as the runtime node does."""

    def __init__(self, namespace: str) -> None:
        self.node = Node("person", namespace=namespace)
        self.newest: dict[str, Any] = {}
        self.epoch = time.time_ns() + 10**12  # outranks the robot's own runtime
        self.seq = 0
        self._commands = self.node.create_publisher(ArmCommand, "arm_command", 10)
        self.node.create_timer(0.025, self._be_alive)
        kinds = {
            "joint_states": JointState,
            "arm_status": ArmStatus,
            "front/image_raw": Image,
            "front/camera_info": CameraInfo,
            "wrist/image_raw/compressed": CompressedImage,
            "/diagnostics": DiagnosticArray,
        }
        for topic, kind in kinds.items():
            self.node.create_subscription(kind, topic, self._keep(topic), qos_profile_sensor_data)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        end_s = time.monotonic() + WAIT_S
        while not (found := condition()):
            assert time.monotonic() < end_s, (
                f"waited in vain for {what}; newest: {self.newest.get('arm_status')}"
            )
            rclpy.spin_once(self.node, timeout_sec=0.1)
        return found

    def see(self, topic: str) -> Any:
        """The next message of a topic."""
        self.newest.pop(topic, None)
        return self.until(lambda: self.newest.get(topic), topic)

    def order(self, kind: int, **fields: Any) -> ArmStatus:
        """Send a command and return the first status that knows of it."""
        self.seq += 1
        # Two listen, the arm and the recorder; what is published before a reader was found is lost to it.
        self.until(lambda: self._commands.get_subscription_count() >= 2, "arm and recorder to listen")
        self._commands.publish(ArmCommand(epoch=self.epoch, seq=self.seq, kind=kind, **fields))
        return self.until(lambda: self._status_of(self.seq), f"command {self.seq} to be answered")

    def _be_alive(self) -> None:
        """The arm holds when its sender is silent."""
        self._commands.publish(ArmCommand(epoch=self.epoch, seq=self.seq, kind=ArmCommand.ALIVE))

    def rest(self) -> ArmStatus:
        """Wait until the arm has come to rest."""
        return self.until(
            lambda: (s := self.see("arm_status")).state == ArmStatus.HOLDING and s.settled and s, "rest"
        )

    def arrive(self, state: int, kind: int, **fields: Any) -> None:
        """Have an order run to its end. The arm ends one whose sender is silent for 0.1 s, as this one is where a busy
        machine gives it no time; then it is sent again, as a robot's runtime would."""
        end_s = time.monotonic() + WAIT_S
        while True:
            first = self.order(kind, **fields)
            assert first.state == state or first.cut_short == SILENT, first  # ended before it was seen
            cut_short = self.rest().cut_short
            if not cut_short:
                return
            assert cut_short == SILENT and time.monotonic() < end_s, cut_short

    def joints(self) -> np.ndarray:
        return np.array(self.see("joint_states").position[:7])

    def call(self, kind: Any, name: str, request: Any) -> Any:
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, name)
        with known_by(self.node, node_of(name)) as known:
            self.until(known, f"{name} to know its client")
        future = client.call_async(request)
        self.until(future.done, f"an answer of {name}")
        return future.result()

    def _status_of(self, seq: int) -> ArmStatus | None:
        status = self.newest.get("arm_status")
        mine = status is not None and status.last_epoch == self.epoch and status.last_seq == seq
        return status if mine else None

    def _keep(self, topic: str) -> Callable[[Any], None]:
        return lambda message: self.newest.update({topic: message})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Person, Path]]:
    """One robot without a server for all stories of this file, and where it is recorded."""
    folder = tmp_path_factory.mktemp("robot")
    robot = Robot(
        config=str(ROOT / "configs" / "pick_place.yaml"),
        robot=str(ROOT / "configs" / "robots" / "panda.yaml"),
        gateway="tcp://127.0.0.1:1",  # nobody there
        namespace="robot",
        record=str(folder / "run.mcap"),
    )
    with Bringup([robot], logs=folder / "logs"):
        rclpy.init()
        person = Person("robot")
        try:
            yield person, folder
        finally:
            person.node.destroy_node()
            rclpy.try_shutdown()


@pytest.fixture
def person(run: tuple[Person, Path]) -> Person:
    """The arm at home in the scene of seed 5, holding."""
    found = run[0]
    found.order(ArmCommand.HOLD)
    assert found.call(ResetScene, "arm_node/reset_scene", ResetScene.Request(seed=5)).ok
    # Joint states of before the reset may still be on their way.
    found.until(lambda: np.allclose(found.joints(), SPEC.home_rad, atol=0.02), "the arm at home")
    return found


def chunk(target: np.ndarray, horizon: int = 16) -> ActionChunk:
    """A chunk whose every waypoint is `target` (7,) with an open gripper."""
    rows = np.tile(np.append(target, 0.08), (horizon, 1)).astype(np.float32)
    names = [*SPEC.joints, "gripper"]
    return ActionChunk(step_s=0.05, horizon=horizon, names=names, data=rows.ravel().tolist())


def test_the_runtime_node_is_active_after_bring_up(person: Person) -> None:
    state = person.call(GetState, "runtime_node/get_state", GetState.Request())
    assert state.current_state.label == "active"


def test_a_chunk_moves_the_arm_where_it_says(person: Person) -> None:
    target = np.array(SPEC.home_rad) + 0.1
    person.arrive(ArmStatus.PLAYING, ArmCommand.PLAY, chunk=chunk(target))
    assert person.joints() == pytest.approx(target, abs=0.02)


def test_a_hold_stops_a_chunk_before_its_end(person: Person) -> None:
    target = np.array(SPEC.home_rad)
    target[0] += 1.5
    person.order(ArmCommand.PLAY, chunk=chunk(target, horizon=100))

    def moves() -> bool:
        if person.see("arm_status").cut_short == SILENT:  # as in `arrive`
            person.order(ArmCommand.PLAY, chunk=chunk(target, horizon=100))
        return bool(person.joints()[0] > 0.05)

    person.until(moves, "the arm to move")
    person.order(ArmCommand.HOLD)
    person.rest()
    assert person.joints()[0] < 1.4


def test_the_arm_moves_to_its_safe_pose(person: Person) -> None:
    safe_rad = list(SPEC.safe_rad)
    person.arrive(ArmStatus.MOVING, ArmCommand.MOVE_TO, joint_target_rad=safe_rad, gripper_width_m=0.08)
    assert person.joints() == pytest.approx(SPEC.safe_rad, abs=0.02)


def test_nan_and_impossible_chunks_are_refused_and_the_arm_stays(person: Person) -> None:
    before = person.joints()
    for bad, says in ((np.nan, "joint 4 is nan"), (9.0, "joint 4 is 9")):
        target = np.array(SPEC.home_rad)
        target[3] = bad
        status = person.order(ArmCommand.PLAY, chunk=chunk(target))
        assert says in status.fault
        assert status.state == ArmStatus.HOLDING
    assert JOINT_TOLERANCE_RAD < 0.1
    person.until(lambda: levels(person).get("/robot/arm_node: control") == DiagnosticStatus.ERROR, "an alarm")
    person.rest()
    assert person.joints() == pytest.approx(before, abs=0.01)
    assert person.order(ArmCommand.HOLD).fault == "", "the next good command clears the fault"


def test_a_chunk_for_other_joints_is_refused(person: Person) -> None:
    wrong = chunk(np.array(SPEC.home_rad))
    wrong.names = list(reversed(wrong.names))
    assert "expected columns" in person.order(ArmCommand.PLAY, chunk=wrong).fault


def test_pictures_are_what_the_robot_file_says(person: Person) -> None:
    raw, info, small = (
        person.see(topic) for topic in ("front/image_raw", "front/camera_info", "wrist/image_raw/compressed")
    )
    front, wrist = SPEC.cameras["front"], SPEC.cameras["wrist"]
    assert (raw.height, raw.width, raw.encoding) == (front.height, front.width, "rgb8")
    assert np.array(raw.data).std() > 5, "a picture, not one colour"
    fovy_deg = cell().cameras["front"]["fovy_deg"]
    assert info.k[0] == pytest.approx(front.height / 2 / np.tan(np.radians(fovy_deg) / 2))
    assert raw.header.frame_id == "robot/front_optical_frame"
    assert small.format == "rgb8; jpeg compressed bgr8"
    rgb = decode_image(EncodedImage("jpeg", wrist.height, wrist.width, bytes(small.data)))
    assert rgb.std() > 5


def test_a_new_scene_looks_different_and_is_judged_anew(person: Person) -> None:
    def picture(seed: int) -> np.ndarray:
        assert person.call(ResetScene, "arm_node/reset_scene", ResetScene.Request(seed=seed)).ok
        for _ in range(4):  # pictures that were on their way
            image = person.see("front/image_raw")
        return np.array(image.data, dtype=float)

    assert np.abs(picture(5) - picture(5)).mean() < 2
    assert np.abs(picture(5) - picture(6)).mean() > 2
    assert person.call(Trigger, "arm_node/outcome", Trigger.Request()).message == "ongoing"


def levels(person: Person) -> dict[str, bytes]:
    return {status.name: status.level for status in person.see("/diagnostics").status}


def recorded(folder: Path) -> Counter[str]:
    """How many messages of each topic are in the bag so far."""
    return Counter(entry.topic for entry in read(folder / "run.mcap"))


def test_what_happened_is_recorded_and_can_be_read(tmp_path: Path) -> None:
    robot, _ = parse([f"record:={tmp_path / 'run.mcap'}", "namespace:=taped", "gateway:=tcp://127.0.0.1:1"])
    wanted = {"joint_states": 20, "front/image_raw/compressed": 5, "robot_status": 5}
    with own_domain(), Bringup([robot], logs=tmp_path / "logs"):
        end_s = time.monotonic() + WAIT_S
        while not all(recorded(tmp_path)[f"/taped/{topic}"] > count for topic, count in wanted.items()):
            assert time.monotonic() < end_s, recorded(tmp_path)
            time.sleep(0.2)
    with (tmp_path / "run.mcap").open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert summary.statistics is not None
    counts = summary.statistics.channel_message_counts
    found = {channel.topic: counts.get(number, 0) for number, channel in summary.channels.items()}
    for topic, count in wanted.items():
        assert found[f"/taped/{topic}"] > count, found
    assert "/taped/decisions" in found
    assert "/taped/front/image_raw" not in found, "pictures are recorded once, compressed"
    schema = {s.name: s.data.decode() for s in summary.schemas.values()}
    assert "MSG: rosa_interfaces/ActionChunk" in schema["rosa_interfaces/msg/ArmCommand"]
    assert list((tmp_path / "logs").glob("taped_arm_node.log"))
