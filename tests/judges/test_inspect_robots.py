"""inspect-robots (PyPI) judges a policy behind ROSA through its own plugin for openpi servers, unmodified.

The plugin's client is openpi's. It sends DROID's observation, gets DROID's joint velocities, and integrates them;
ROSA's frontend makes velocities of the absolute joints that the model answers. An arm arrives only if both agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_robots import eval as judge
from inspect_robots.embodiment import AUTO_RESET, PRIVILEGED_SUCCESS, RESETTABLE, SEEDABLE, EmbodimentInfo
from inspect_robots.scene import Scene
from inspect_robots.scorer import success_at_end
from inspect_robots.task import Task
from inspect_robots.types import Observation, StepResult
from inspect_robots_franka.config import FrankaConfig, action_box, observation_space
from inspect_robots_franka.policy import OpenpiPolicy

from tests.judges.reach import CLOSED_M, OPEN_M, chunk
from tests.system.frontends.clients import metrics, with_frontends
from tests.system.server_harness import Server

# The client opens its connection in a way that newer versions of websockets advise against.
pytestmark = pytest.mark.filterwarnings(
    "ignore:connect.. must be used:DeprecationWarning", "ignore::UserWarning"
)
SCENES, MAX_STEPS = 4, 120
REACHED_RAD = 0.02
SIDE = 64
CONFIG = FrankaConfig(cam_height=SIDE, cam_width=SIDE)
Served = tuple[Server, dict[str, int]]


class Arm:
    """The joints go where they are told; the task is over when they are where the instruction says."""

    def __init__(self) -> None:
        self.info = EmbodimentInfo(
            name="arm",
            action_space=action_box(CONFIG),
            observation_space=observation_space(CONFIG),
            control_hz=15.0,
            is_simulated=True,
            capabilities=frozenset({SEEDABLE, RESETTABLE, AUTO_RESET, PRIVILEGED_SUCCESS}),
        )
        self._pose = np.asarray(CONFIG.home_pose)
        self._goal = self._pose

    def reset(self, scene: Scene, *, seed: int | None = None) -> Observation:
        self._pose = np.asarray(CONFIG.home_pose)
        self._goal = np.asarray([float(word) for word in scene.instruction.split()])
        return self._seen(scene.instruction)

    def step(self, action: Any) -> StepResult:
        self._pose = np.clip(np.asarray(action.data), CONFIG.low, CONFIG.high)
        there = bool(np.abs(self._pose[:7] - self._goal).max() < REACHED_RAD)
        reason = "success" if there else None
        return StepResult(
            self._seen(None), terminated=there, termination_reason=reason, info={"success": there}
        )

    def close(self) -> None:
        pass

    def _seen(self, instruction: str | None) -> Observation:
        picture = np.zeros((SIDE, SIDE, 3), np.uint8)
        return Observation(
            images={"exterior_cam": picture, "wrist_cam": picture},
            state={"joint_pos": self._pose.copy()},
            instruction=instruction,
        )


def scenes(number: int) -> list[Scene]:
    chance = np.random.default_rng(number)
    goals = [np.asarray(CONFIG.home_pose)[:7] + chance.uniform(-0.4, 0.4, 7) for _ in range(SCENES)]
    return [
        Scene(id=f"{number}-{n}", instruction=" ".join(f"{angle:.3f}" for angle in goal))
        for n, goal in enumerate(goals)
    ]


def in_process(seen: Mapping[str, Any]) -> Mapping[str, Any]:
    """What openpi's server with this model would answer: DROID's velocities, 1 for 0.2 rad."""
    joints = np.asarray(seen["observation/joint_position"])
    width = (1 - np.asarray(seen["observation/gripper_position"])) * (OPEN_M - CLOSED_M)
    rows = chunk(str(seen["prompt"]), joints, width)
    moves = np.diff(rows[:, :7], axis=0, prepend=joints[None]) / 0.2
    return {"actions": np.concatenate([moves, 1 - rows[:, 7:] / OPEN_M], axis=1)}


def judged(folder: Path, number: int, policy: Callable[[], OpenpiPolicy]) -> list[Any]:
    """How each of the scenes ended."""
    task = Task(name="reach", scenes=scenes(number), scorer=success_at_end(), max_steps=MAX_STEPS)
    (log,) = judge(task, policy(), Arm(), log_dir=str(folder), store_actions=False)
    assert log.status == "success", log.error
    return [(scene.scene_id, scene.termination_reasons, scene.reduced) for scene in log.samples]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The model behind the frontend for openpi's clients, with the preset for DROID."""
    sides = {"height": SIDE, "width": SIDE, "fit": "pad"}
    frontend = {
        "protocol": "openpi",
        "task": "pick",
        "preset": "droid",
        "images": {
            "front": {"key": "observation/exterior_image_1_left", **sides},
            "wrist": {"key": "observation/wrist_image_left", **sides},
        },
        "slo_ms": 20_000,
    }
    folder = tmp_path_factory.mktemp("served")
    with with_frontends(folder, {}, backend="tests.judges.reach:ReachBackend", openpi=frontend) as it:
        yield it


def counted(server: Server) -> tuple[float, float]:
    """(calls, batches) so far."""
    told = metrics(server)
    return tuple(told.get(f'rosa_batch_size_{what}{{model="policy"}}', 0.0) for what in ("sum", "count"))


@pytest.mark.parametrize("at_once", [1, 8])
def test_as_many_scenes_succeed_through_rosa_as_in_process(
    tmp_path: Path, served: Served, at_once: int
) -> None:
    server, ports = served
    before = counted(server)
    with ThreadPoolExecutor(at_once) as pool:
        through = [
            pool.submit(judged, tmp_path / f"{number}", number, lambda: OpenpiPolicy(port=ports["openpi"]))
            for number in range(at_once)
        ]
        ended = [one.result() for one in through]
    calls, batches = (after - then for after, then in zip(counted(server), before, strict=True))
    own = [judged(tmp_path / f"own{n}", n, lambda: OpenpiPolicy(infer_fn=in_process)) for n in range(at_once)]
    assert ended == own
    succeeded = sum(scores["success_at_end"] for scenes in ended for _, _, scores in scenes)
    shared = f"{calls:g} calls in {batches:g} batches"
    print(f"\n{at_once} at once: {succeeded:g} of {SCENES * at_once} scenes succeed, {shared}")
    assert succeeded == SCENES * at_once
    assert batches == calls if at_once == 1 else batches < calls
