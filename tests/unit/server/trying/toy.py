"""A small robot world without learning: a policy that moves two joints to where it sees red, and what it recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path as File
from typing import Any

import numpy as np

from rosa_contract.config.conventions import gripper_from, gripper_in
from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput
from rosa_server.trying.steps import Path, TrialStep

SIZE, HORIZON, STEP_S, OPEN_M = 32, 16, 0.05, 0.08


class ToyPolicy:
    """Joint 1 goes to where the front camera shows red, joint 2 to where the wrist camera does; right of the middle
    the gripper closes. Options plant mistakes of a model itself."""

    def __init__(
        self, constant: bool = False, deg: bool = False, delta: bool = False, closed: bool = False
    ) -> None:
        self.input_spec = InputSpec(
            {"front": (SIZE, SIZE), "wrist": (SIZE, SIZE)}, {"joint_position": 2, "gripper_width": 1}
        )
        self.max_batch, self.memory_mb = 4, 0.0
        self._constant, self._deg, self._delta, self._closed = constant, deg, delta, closed

    def load(self) -> None: ...

    def warm_up(self) -> None: ...

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        return [ModelOutput({"actions": self._rows(one)}) for one in batch]

    def _rows(self, one: ModelInput) -> np.ndarray[Any, Any]:
        if self._constant:
            return np.tile(np.float32([0.1, 0.2, 0.04]), (HORIZON, 1))
        here = np.asarray(one.state["joint_position"], np.float64)
        target = np.array([red_at(one.images["front"]), red_at(one.images["wrist"])])
        share = np.linspace(0, 1, HORIZON)[:, None]
        joints = (0 if self._delta else here) + (target - here) * share
        joints = np.degrees(joints) if self._deg else joints
        width = OPEN_M if bool(target[0] < 0) != self._closed else 0.0
        return np.concatenate([joints, np.full((HORIZON, 1), width)], axis=1).astype(np.float32)

    def close(self) -> None: ...


class GraspingPolicy(ToyPolicy):
    """Where joint 1 goes depends on how open the gripper is, which it reads and orders as `written` says."""

    def __init__(self, written: str = "closed_percent") -> None:
        super().__init__()
        self._written = written

    def _rows(self, one: ModelInput) -> np.ndarray[Any, Any]:
        width = gripper_from(self._written, one.state["gripper_width"], 0.0, OPEN_M)
        rows = super()._rows(one)
        rows[:, 0] += np.linspace(0, 2, HORIZON) * (width[0] / OPEN_M - 0.5)
        rows[:, 2:] = gripper_in(self._written, rows[:, 2:], 0.0, OPEN_M)
        return rows


class LerobotPolicy(GraspingPolicy):
    """Degrees and percent of open both ways, as LeRobot's followers write them."""

    def __init__(self) -> None:
        super().__init__("open_percent")

    def _rows(self, one: ModelInput) -> np.ndarray[Any, Any]:
        joints = np.radians(one.state["joint_position"])
        rows = super()._rows(replace(one, state={**one.state, "joint_position": joints}))
        rows[:, :2] = np.degrees(rows[:, :2])
        return rows


def grasped(count: int = 8) -> list[TrialStep]:
    """What a robot did whose policy was asked and read as it has to be."""
    policy, steps = GraspingPolicy("width"), []
    for step in world(count):
        rows = policy.infer([step.asked("system1")])[0].arrays["actions"]
        steps.append(replace(step, recorded=Path(rows.astype(np.float64), STEP_S)))
    return steps


def red_at(picture: np.ndarray[Any, Any]) -> float:
    """-1 .. 1 rad: where the picture is red."""
    signed = picture.astype(int)
    columns = np.nonzero((signed[..., 0] - signed[..., 2]).max(axis=0) > 100)[0]
    return float(columns.mean() / (SIZE - 1) * 2 - 1) if len(columns) else 0.0


def shown(red: float, blue: float) -> np.ndarray[Any, Any]:
    """A picture that is red at one place and blue at another."""
    picture = np.full((SIZE, SIZE, 3), 90, np.uint8)
    for at, colour in ((blue, (20, 20, 230)), (red, (230, 20, 20))):
        column = round((at + 1) / 2 * (SIZE - 1))
        picture[8:24, max(0, column - 2) : column + 3] = colour
    return picture


def world(count: int = 8, seed: int = 3, joined: bool = False) -> list[TrialStep]:
    """What a robot saw, and what it did: the policy's own chunks, not quite. `joined`: each begins where one ended."""
    random = np.random.default_rng(seed)
    steps: list[TrialStep] = []
    for number in range(count):
        reds, blues = random.uniform(-0.9, 0.9, 2), random.uniform(-0.9, 0.9, 2)
        here = random.uniform(-0.9, 0.9, 2).astype(np.float32)
        if joined and steps and steps[-1].recorded is not None:
            here = steps[-1].recorded.rows[-1, :2].astype(np.float32)
        images = {
            name: shown(red, blue) for name, red, blue in zip(("front", "wrist"), reds, blues, strict=True)
        }
        state = {"joint_position": here, "gripper_width": np.float32([random.choice([0.0, OPEN_M])])}
        target = np.array([red_at(images["front"]), red_at(images["wrist"])])
        rows = here + (target - here) * np.linspace(0, 1, HORIZON)[:, None]
        rows += random.normal(0, 0.005, rows.shape)
        width = np.full((HORIZON, 1), OPEN_M if target[0] < 0 else 0.0)
        recorded = Path(np.concatenate([rows, width], axis=1), STEP_S)
        steps.append(TrialStep(float(number), images, state, "go to red", recorded))
    return steps


def frames(still: int = 40) -> Iterator[dict[str, Any]]:
    """The world frame by frame, `STEP_S` apart: both pictures, and the `row` of joints and width; the arm rests for
    `still` frames after each of its ways."""
    for step in world(joined=True):
        assert step.recorded is not None
        rows = list(step.recorded.rows)
        for row in rows + [rows[-1]] * still:
            yield {**step.images, "row": row}


def write_bag(
    steps: Sequence[TrialStep], path: File, chunks: bool = True, joints: Sequence[str] = ("j1", "j2")
) -> None:
    """The steps as a recording of robot `arm`, as ROSA's recorder writes it; without chunks as any robot's."""
    import cv2
    from rclpy.serialization import serialize_message
    from rosa_interfaces.msg import ActionChunk, ArmCommand, Call
    from sensor_msgs.msg import CompressedImage, JointState

    from rosa_client.recording.bag import BagWriter

    bag = BagWriter(path)
    topics = {
        name: bag.channel(f"/arm/{name}", f"{kind[0]}/msg/{kind[1]}")
        for name, kind in {
            "joint_states": ("sensor_msgs", "JointState"),
            "front/image_raw/compressed": ("sensor_msgs", "CompressedImage"),
            "wrist/image_raw/compressed": ("sensor_msgs", "CompressedImage"),
            "arm_command": ("rosa_interfaces", "ArmCommand"),
            "calls": ("rosa_interfaces", "Call"),
        }.items()
    }

    def add(topic: str, at_s: float, message: Any) -> None:
        bag.add(topics[topic], int(at_s * 1e9), serialize_message(message))

    def state(at_s: float, row: np.ndarray[Any, Any]) -> None:
        fingers = [f"arm_finger_joint{number}" for number in (1, 2)]
        half = float(row[2]) / 2
        add(
            "joint_states",
            at_s,
            JointState(name=[*joints, *fingers], position=[*map(float, row[:2]), half, half]),
        )

    for step in steps:
        at_s = 1000.0 + 3 * step.at_s
        assert step.recorded is not None and step.here is not None
        state(at_s, step.here)
        for camera, picture in step.images.items():
            _, jpeg = cv2.imencode(".png", np.ascontiguousarray(picture[..., ::-1]))
            message = CompressedImage(format="rgb8; png compressed bgr8", data=jpeg.tobytes())
            add(f"{camera}/image_raw/compressed", at_s + 0.01, message)
        if chunks:
            chunk = ActionChunk(
                model="toy",
                step_s=step.recorded.step_s,
                horizon=HORIZON,
                names=[*joints, "gripper"],
                data=step.recorded.rows.astype(np.float32).ravel().tolist(),
            )
            add("arm_command", at_s + 0.3, ArmCommand(kind=ArmCommand.PLAY, chunk=chunk))
            add("calls", at_s + 0.31, Call(component="system1", ending=Call.IN_TIME, duration_ms=200.0))
        else:
            for index, row in enumerate(step.recorded.rows):
                state(at_s + 0.05 + index * step.recorded.step_s, row)
    bag.close()
