"""Robots with the product's own loop and two cameras, on their own machine; every call is written down.

python -m rosa_sim.machines.camera_robots ENDPOINT FACTORY.yaml COUNT SECONDS CALLS.jsonl [--min-quality 30]
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import cv2
import numpy as np

from rosa_client.connection.link import GatewayLink
from rosa_client.loops.loop import RobotLoop, Seen
from rosa_client.motion.refusal import Refusal
from rosa_client.runtime.commands import (
    HOLDING,
    PLAYING,
    Alert,
    CallEnded,
    Command,
    Decision,
    Inputs,
    Order,
    Play,
)
from rosa_client.runtime.runtime import RobotRuntime
from rosa_client.sensing.picture_quality import PictureQuality
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.config.factory import load_factory
from rosa_contract.config.robot import RobotSpec, hello_of
from rosa_contract.wire.images import EncodedImage, Rgb, encode_image
from rosa_contract.wire.status import Audit
from rosa_sim.fleet.simulation import ROBOT

SIZE = (480, 640)
CAMERAS = ("front", "wrist")
PHOTOGRAPHS = 8  # of each camera, one after the other
QUALITY = 90


class StillArm:
    """A body whose arm is always where it is told to be; it writes down calls, alerts and changes of the pictures."""

    def __init__(self, name: str, pictures: Mapping[str, list[EncodedImage]], out: TextIO) -> None:
        self._name, self._pictures, self._out = name, pictures, out
        self._looks = 0
        self._sequence, self._plays_until_s = 0, 0.0

    def sense(self) -> Inputs:
        now_s = time.monotonic()
        stamps = dict.fromkeys((*CAMERAS, "joint_state"), now_s)
        state = PLAYING if now_s < self._plays_until_s else HOLDING
        return Inputs(stamps, False, arm_state=state, arm_sequence=self._sequence)

    def observe(self) -> Seen:
        self._looks += 1
        seen = {name: shots[self._looks % PHOTOGRAPHS] for name, shots in self._pictures.items()}
        return {"joint_position": np.zeros(1, np.float32)}, seen

    def act(self, command: Order) -> None:
        self._sequence = command.sequence
        self._plays_until_s = time.monotonic() + command.duration_s if isinstance(command, Play) else 0.0

    def publish(self, message: Command) -> None:
        now_s = time.monotonic()
        if isinstance(message, CallEnded):
            self._write(now_s, message.component, message.ending, message.duration_ms)
        elif isinstance(message, Alert):
            self._write(now_s, "", "escalated", 0.0)
        elif isinstance(message, Decision) and message.action.endswith("_pictures"):
            self._write(now_s, message.reason, message.action, 0.0)

    def _write(self, *what: float | str) -> None:
        self._out.write(json.dumps([what[0], self._name, *what[1:]]) + "\n")

    def audit(self, audit: Audit) -> None: ...

    def ask_arm(
        self, choice: str, decided_by: str, why: str, answered: Callable[[Refusal | None], None]
    ) -> None:
        answered(None)

    def report(self, core: RobotRuntime, now_s: float, link: GatewayLink) -> None: ...


def photographs(seed: int) -> list[EncodedImage]:
    """Pictures that compress as photographs do: each octave of detail has 0.6 of the last one's amplitude (theirs falls
    with the frequency)."""
    rng = np.random.default_rng(seed)
    return [encode_image(_photograph(rng), "jpeg", QUALITY) for _ in range(PHOTOGRAPHS)]


def _photograph(rng: np.random.Generator) -> Rgb:
    height, width = SIZE
    sum_of = np.zeros((height, width, 3), np.float32)
    for octave in range(7):
        part = (-(-height // 2 ** (6 - octave)), -(-width // 2 ** (6 - octave)), 3)
        grain = rng.normal(0.0, 0.6**octave, part).astype(np.float32)
        sum_of += cv2.resize(grain, (width, height), interpolation=cv2.INTER_CUBIC)
    return cv2.normalize(sum_of, sum_of, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)


def robot_with(min_quality: int | None) -> RobotSpec:
    camera = CameraSpec(SIZE[1], SIZE[0], quality=QUALITY, min_quality=min_quality)
    return replace(ROBOT, cameras=dict.fromkeys(CAMERAS, camera))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("endpoint")
    parser.add_argument("factory")
    parser.add_argument("count", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("calls", type=Path)
    parser.add_argument("--min-quality", type=int, help="to which pictures may be lowered; default: never")
    arguments = parser.parse_args()
    factory, spec = load_factory(arguments.factory), robot_with(arguments.min_quality)
    name, task = next(iter(factory.tasks.items()))
    pictures = {camera: photographs(seed) for seed, camera in enumerate(CAMERAS)}
    loops = []
    with arguments.calls.open("w", buffering=1) as out:
        for number in range(arguments.count):
            robot = f"robot{number:02d}"
            link = GatewayLink(arguments.endpoint, hello_of(robot, name, spec))
            body = StillArm(robot, pictures, out)
            core = RobotRuntime(robot, task, spec)
            loop = RobotLoop(core, link, body, pictures=PictureQuality(spec.cameras))
            loop.start()
            loop.begin(0.0)
            loops.append(loop)
        _attend(loops, time.monotonic() + arguments.seconds)
        for loop in loops:
            loop.stop()
    return 0


def _attend(loops: list[RobotLoop], until_s: float) -> None:
    """A person who resumes every robot that calls."""
    while time.monotonic() < until_s:
        for loop in loops:
            if (alert := loop.core.alert) is not None:
                loop.decide(alert.alert_id, "resume", "the simulated operator", "")
        threading.Event().wait(0.5)


if __name__ == "__main__":
    raise SystemExit(main())
