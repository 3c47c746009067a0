"""Listens to a robot's topics for some seconds: pictures, joint states, what the arm is doing. Publishes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lifecycle_msgs.srv import GetState
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rosa_interfaces.msg import ArmStatus
from sensor_msgs.msg import CompressedImage, Image, JointState

from rosa_client.doctor.judges.arm import ARM_NODE, ArmFact
from rosa_client.doctor.judges.pictures import CAMERA_NODE, PicturesFact, pictures_fact
from rosa_client.doctor.probes.controllers import GIVES, TAKES
from rosa_client.drivers.arms.action_names import action_types
from rosa_client.drivers.arms.ros2_control_rules import resolve
from rosa_client.motion.arm_orders import PlayerState
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.base.qos import asked, offers
from rosa_client.ros.own_node import own_node
from rosa_client.sensing.picture_offers import why_unmatched, wrong_format
from rosa_contract.config.cameras import CameraSpec, picture_topic
from rosa_contract.errors import CodecError
from rosa_contract.wire.images import EncodedImage, Rgb, decode_image, written_size

try:
    from controller_manager_msgs.srv import ListControllers
except ImportError:  # an arm without ros2_control needs none
    ListControllers = None

STATES = {state.value: state.name.lower() for state in PlayerState}
STATE_WITHIN_S = 1.0  # a node that runs says its state within milliseconds
FIND_S = 4.0  # until everything that is awaited has been heard once
LOOKED_AT = 200  # the newest pictures of one camera; to decode all would take long


@dataclass
class _Camera:
    name: str
    spec: CameraSpec
    topic: str
    pictures: list[tuple[float, Any]] = field(default_factory=list)  # time of arrival, message


def listen(
    namespace: str,
    cameras: Mapping[str, CameraSpec],
    controllers: Mapping[str, tuple[str, str]],
    actions: Mapping[str, str],
    seconds: float,
    manager: str = "",
) -> tuple[list[PicturesFact], ArmFact]:
    """`controllers`: name -> its topic, and whether it `takes` or `gives` what is sent there; `actions`: -> type;
    `manager`: the service that lists the controllers, empty: none is asked."""
    prepare_environment()
    with own_node("rosa_doctor") as (node, executor):
        listener = _Listener(node, executor, f"/{namespace.strip('/')}", cameras, manager)
        return listener.listen(controllers, actions, seconds)


class _Listener:
    def __init__(
        self, node: Any, executor: Any, prefix: str, cameras: Mapping[str, CameraSpec], manager: str
    ) -> None:
        self._node, self._executor = node, executor
        self._status: Any = None
        self._joints: list[tuple[float, Any]] = []
        self._cameras = []
        for name, spec in cameras.items():
            camera = _Camera(name, spec, resolve(prefix, picture_topic(name, spec)))
            self._cameras.append(camera)
            node.create_subscription(_kind(spec), camera.topic, _keeping(camera.pictures), asked(spec))
        self._asks = {
            name: node.create_client(GetState, f"{prefix}/{name}/get_state")
            for name in (ARM_NODE, CAMERA_NODE)
        }
        self._lists = node.create_client(ListControllers, manager) if manager and ListControllers else None
        node.create_subscription(ArmStatus, f"{prefix}/arm_status", self._on_status, QoSProfile(depth=10))
        joints = f"{prefix}/joint_states"
        node.create_subscription(JointState, joints, _keeping(self._joints), qos_profile_sensor_data)

    def listen(
        self, controllers: Mapping[str, tuple[str, str]], actions: Mapping[str, str], seconds: float
    ) -> tuple[list[PicturesFact], ArmFact]:
        """Until all are heard, or `FIND_S`; then `seconds` that count."""
        self._spin(
            FIND_S, lambda: bool(self._status and self._joints and all(c.pictures for c in self._cameras))
        )
        for kept in (self._joints, *(camera.pictures for camera in self._cameras)):
            kept.clear()
        began_s = time.monotonic()
        self._spin(seconds, lambda: False)
        took_s = time.monotonic() - began_s
        status, joints = self._status, self._joints
        count = {TAKES: self._node.count_subscribers, GIVES: self._node.count_publishers}
        there = {name: (topic, bool(count[does](topic))) for name, (topic, does) in controllers.items()}
        arm = ArmFact(
            state=STATES.get(status.state, "unknown") if status else "",
            fault=status.fault if status else "",
            node_state=self._state_of(ARM_NODE),
            emergency_stop=bool(status and status.emergency_stop),
            joints=list(joints[-1][1].name) if joints else [],
            joints_hz=len(joints) / took_s,
            controllers=there,
            states=self._states(),
            actions={name: (kind, action_types(self._node, name)) for name, kind in actions.items()},
        )
        cameras_state = self._state_of(CAMERA_NODE)
        return [self._pictures(camera, took_s, cameras_state) for camera in self._cameras], arm

    def _state_of(self, name: str) -> str:
        """Of a managed node, such as inactive; empty where it does not answer. Asked last, when it knows who asks."""
        told = self._answer(self._asks[name], GetState.Request())
        return "" if told is None else str(told.current_state.label)

    def _states(self) -> dict[str, str]:
        """Controller -> its state, as its manager lists it; empty where none does."""
        told = self._answer(self._lists, ListControllers.Request()) if self._lists is not None else None
        return {} if told is None else {one.name: one.state for one in told.controller}

    def _answer(self, client: Any, request: Any) -> Any:
        """None where none comes."""
        if not client.service_is_ready():
            return None
        told = client.call_async(request)
        self._spin(STATE_WITHIN_S, told.done)
        return told.result() if told.done() else None

    def _pictures(self, camera: _Camera, took_s: float, cameras_state: str) -> PicturesFact:
        """`cameras_state`: of the node of the robot's cameras; some may be another node's."""
        decoded: list[tuple[EncodedImage, Rgb]] = []
        problem = ""
        for _, message in camera.pictures[-LOOKED_AT:]:
            try:
                image = _encoded(message, camera.spec)
                decoded.append((image, decode_image(image)))
            except CodecError as error:
                problem = str(error)
        found = offers(self._node, camera.topic)
        unmatched = why_unmatched(found, camera.spec)
        from_ours = CAMERA_NODE in {
            one.node_name for one in self._node.get_publishers_info_by_topic(camera.topic)
        }
        state = cameras_state if from_ours else ""
        nothing = PicturesFact(
            camera.name, len(found), camera.topic, unmatched, seconds=took_s, node_state=state
        )
        times_s = [at_s for at_s, _ in camera.pictures]
        return pictures_fact(nothing, times_s, decoded, _stamps(camera.pictures), problem)

    def _spin(self, seconds: float, enough: Callable[[], bool]) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not enough():
            self._executor.spin_once(timeout_sec=0.05)

    def _on_status(self, message: Any) -> None:
        self._status = message


def _kind(spec: CameraSpec) -> Any:
    return Image if spec.encoding == "rgb8" else CompressedImage


def _stamps(pictures: list[tuple[float, Any]]) -> list[tuple[float, float]]:
    """(arrival, age by the header) of each picture whose header says when it was taken, s."""
    wall_s = time.time() - time.monotonic()
    found = []
    for at_s, message in pictures:
        stamp = message.header.stamp
        if stamp.sec or stamp.nanosec:
            found.append((at_s, wall_s + at_s - stamp.sec - stamp.nanosec / 1e9))
    return found


def _encoded(message: Any, spec: CameraSpec) -> EncodedImage:
    """A message as the runtime would send it, in the size that its own bytes say."""
    if isinstance(message, Image):
        if message.encoding != "rgb8":
            raise CodecError("bad_image", f"expected an rgb8 picture, got {message.encoding}")
        return EncodedImage("rgb8", message.height, message.width, bytes(message.data))
    if words := wrong_format(message.format, spec):
        raise CodecError("bad_image", words)
    return measured(spec.encoding, bytes(message.data))


def measured(encoding: str, data: bytes) -> EncodedImage:
    """A compressed picture with the size that it has. Raises `CodecError` for bytes that are no picture."""
    height, width = written_size(encoding, data)
    return EncodedImage(encoding, height, width, data)


def _keeping(kept: list[tuple[float, Any]]) -> Callable[[Any], None]:
    """A subscription callback that keeps the message with its time of arrival."""
    return lambda message: kept.append((time.monotonic(), message))
