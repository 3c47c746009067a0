"""Nodes that are started by hand: what they refuse, say and publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
import yaml
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, JointState
from tf2_msgs.msg import TFMessage

from rosa_client.nodes.base.qos import LATEST
from tests.system.nodes.processes import CONFIG, PANDA, end, running, wait_for
from tests.system.services import known_by, node_of

pytestmark = pytest.mark.slow
NOBODY = "gateway:=tcp://127.0.0.1:1"
PATIENCE_S = 40.0


class Ear:
    """A node that hears and asks."""

    def __init__(self) -> None:
        self.node = Node("ear")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        end_s = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert time.monotonic() < end_s, f"waited in vain for {what}"
            self._executor.spin_once(timeout_sec=0.05)
        return found

    def hear(self, kind: Any, topic: str, qos: Any = 10) -> list[Any]:
        heard: list[Any] = []
        self.node.create_subscription(kind, topic, heard.append, qos)
        return heard

    def ask(self, kind: Any, name: str, request: Any) -> Any:
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, name)
        with known_by(self.node, node_of(name)) as known:
            self.until(known, f"{name} to know its client")
        future = client.call_async(request)
        self.until(future.done, f"an answer of {name}")
        return future.result()

    def set(self, node: str, name: str, value: ParameterValue) -> Any:
        request = SetParameters.Request(parameters=[Parameter(name=name, value=value)])
        return self.ask(SetParameters, f"{node}/set_parameters", request).results[0]

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()


@pytest.fixture
def ear() -> Iterator[Ear]:
    rclpy.init()
    one = Ear()
    yield one
    one.close()
    rclpy.shutdown()


def text(value: str) -> ParameterValue:
    return ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=value)


def number(value: float) -> ParameterValue:
    return ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)


def test_an_arm_node_starts_without_a_dds_profile() -> None:
    with running("arm_node", "bare", PANDA, "driver:=echo", FASTDDS_DEFAULT_PROFILES_FILE="") as process:
        wait_for(process, "holding")
        end(process)


def test_what_cannot_take_effect_cannot_be_set_and_what_can_has_a_range(ear: Ear) -> None:
    with running("arm_node", "set", PANDA, "driver:=echo") as process:
        wait_for(process, "holding")
        names = ["robot", "seed", "joint_state_rate_hz", "velocity_scale"]
        described = ear.ask(
            DescribeParameters, "/set/arm_node/describe_parameters", DescribeParameters.Request(names=names)
        ).descriptors
        assert all(one.description for one in described)
        assert [one.read_only for one in described] == [True, True, True, False]
        [scale] = described[3].floating_point_range
        assert (scale.to_value, described[1].integer_range[0].from_value) == (1.0, 0)
        assert not ear.set("/set/arm_node", "joint_state_rate_hz", number(10.0)).successful
        assert not ear.set("/set/arm_node", "velocity_scale", number(1.5)).successful
        assert not ear.set("/set/arm_node", "velocity_scale", text("slow")).successful
        assert ear.set("/set/arm_node", "velocity_scale", number(0.5)).successful
        end(process)


def test_a_value_out_of_range_at_the_start_is_refused_in_one_line() -> None:
    with running("arm_node", "range", PANDA, "joint_state_rate_hz:=5000.0") as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 2
        assert "joint_state_rate_hz" in said and "FATAL" in said
        assert "Traceback" not in said


def test_joint_states_are_reliable_and_every_diagnosis_names_its_hardware(ear: Ear) -> None:
    reliable = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
    joints = ear.hear(JointState, "/said/joint_states", reliable)
    diagnosed = ear.hear(DiagnosticArray, "/diagnostics")
    with running("arm_node", "said", PANDA) as process:
        ear.until(lambda: joints, "joint_states for a reliable subscriber")
        ear.until(lambda: diagnosed, "diagnostics")
        assert all(status.hardware_id for array in diagnosed for status in array.status)
        wait_for(process, "holding")
        end(process)


def test_an_unreachable_gateway_is_named_and_no_component_is_fine_before_its_first_call(
    ear: Ear,
) -> None:
    diagnosed = ear.hear(DiagnosticArray, "/diagnostics")
    with running("runtime_node", "far", PANDA, CONFIG, NOBODY) as process:
        wait_for(process, "on tcp://127.0.0.1:1")
        wait_for(process, "no server at tcp://127.0.0.1:1")
        ear.until(lambda: diagnosed, "diagnostics")
        levels = {status.name: status for status in diagnosed[-1].status}
        assert levels["far: system1"].level == DiagnosticStatus.STALE
        assert levels["far: system1"].message == "not called yet"
        assert levels["far: server"].level == DiagnosticStatus.ERROR
        assert all(status.hardware_id for status in levels.values())
        end(process)


def test_a_configured_runtime_refuses_settings_that_come_too_late(ear: Ear) -> None:
    with running("runtime_node", "late", PANDA, CONFIG, NOBODY) as process:
        wait_for(process, "on tcp://127.0.0.1:1")
        answer = ear.set("/late/runtime_node", "task", text("other"))
        assert not answer.successful
        assert "clean it up first" in answer.reason
        end(process)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ((PANDA, CONFIG, "gateway:=localhost:5570"), "gateway: expected an endpoint such as tcp://HOST:PORT"),
        ((PANDA, CONFIG, "task:=nope"), "no task 'nope'; known: pick_and_place"),
        ((PANDA, "config:=/nowhere.yaml"), "/nowhere.yaml: 1 problem"),
        ((PANDA, CONFIG, NOBODY, "use_sim_time:=true"), "use_sim_time is true, but nobody publishes /clock"),
    ],
)
def test_a_runtime_that_cannot_start_ends_and_says_why(parameters: tuple[str, ...], says: str) -> None:
    with running("runtime_node", "wrong", *parameters) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 2
        assert says in said.rstrip().split("[FATAL]")[-1]
        assert "Traceback" not in said


def test_the_cameras_frames_are_in_tf_also_for_whoever_comes_later(ear: Ear) -> None:
    with running(
        "runtime_node",
        "framed",
        PANDA,
        CONFIG,
        NOBODY,
        "frame_prefix:=framed/",
        "base:='1 0 0 0'",
    ) as process:
        wait_for(process, "on tcp://127.0.0.1:1")
        heard = ear.hear(TFMessage, "/tf_static", LATEST)
        ear.until(lambda: heard, "/tf_static")
        found = {one.child_frame_id: one.header.frame_id for one in heard[0].transforms}
        assert found == {
            "framed/panda_link0": "world",
            "framed/front_optical_frame": "framed/panda_link0",
            "framed/wrist_optical_frame": "framed/panda_hand",
        }
        end(process)


def test_a_camera_that_cannot_start_says_which_device_is_missing(tmp_path: Path) -> None:
    page = yaml.safe_load(Path(PANDA.removeprefix("robot:=")).read_text()) | {"camera_driver": "v4l2"}
    for name in page["cameras"]:
        page["cameras"][name]["source"] = f"/dev/no_{name}"
    (tmp_path / "robot.yaml").write_text(yaml.safe_dump(page))
    with running("camera_node", "blind", f"robot:={tmp_path / 'robot.yaml'}") as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 2
        assert "v4l2: camera front: no device /dev/no_front" in said
        assert "Traceback" not in said


def test_each_camera_has_its_own_rate(ear: Ear, tmp_path: Path) -> None:
    page = yaml.safe_load(Path(PANDA.removeprefix("robot:=")).read_text())
    page["cameras"]["front"]["rate_hz"], page["cameras"]["wrist"]["rate_hz"] = 20, 5
    robot = tmp_path / "robot.yaml"
    robot.write_text(yaml.safe_dump(page))
    driver = "driver:=tests.system.nodes.quick_driver:QuickCameras"
    heard = {
        name: ear.hear(CompressedImage, f"/rates/{name}/image_raw/compressed", qos_profile_sensor_data)
        for name in ("front", "wrist")
    }
    with running("camera_node", "rates", f"robot:={robot}", driver) as node:
        ear.until(lambda: len(heard["wrist"]) >= 10, "ten pictures of the slower camera")
        end(node)
    # Four to one in the robot file; a busy machine takes from the quicker one first.
    assert 1.5 < len(heard["front"]) / len(heard["wrist"]) < 5.5
