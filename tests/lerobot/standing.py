"""An environment and a robot of LeRobot's whose task is to stay where they are; then one of LeRobot's own commands.

    python tests/lerobot/standing.py lerobot_eval --env.type=standing --policy.type=rosa ...

The emulated model answers where a robot stands, so that whoever plays its actions succeeds: angles in degrees go to the
server in rad and come back. Runs in LeRobot's environment.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig
from lerobot.robots.config import RobotConfig
from lerobot.robots.robot import Robot

from rosa_client import RobotGroup

STEPS, SIZE = 6, 16
JOINTS = [*(f"joint_{number}.pos" for number in range(7)), "gripper.pos"]


def stays(action: Any, pose: Any) -> bool:
    return bool(np.allclose(action, pose, atol=1e-3))


class StandingEnv(gym.Env[Any, Any]):
    """Succeeds when every action was the pose of its own episode, in degrees."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}
    task_description = "stay"

    def __init__(self, **more: Any) -> None:
        self.render_mode = "rgb_array"
        self.action_space = gym.spaces.Box(-360.0, 360.0, (8,), np.float32)
        self.observation_space = gym.spaces.Dict(
            {
                "pixels": gym.spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8),
                "agent_pos": gym.spaces.Box(-360.0, 360.0, (8,), np.float32),
            }
        )
        self._pose, self._stayed, self._step = np.zeros(8, np.float32), True, 0

    def _seen(self) -> dict[str, Any]:
        return {"pixels": self.render(), "agent_pos": self._pose}

    def render(self) -> Any:
        return np.full((SIZE, SIZE, 3), 128, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._pose = self.np_random.uniform(-90, 90, 8).astype(np.float32)
        self._stayed, self._step = True, 0
        return self._seen(), {"is_success": False}

    def step(self, action: Any) -> Any:
        self._stayed &= stays(action, self._pose)
        self._step += 1
        over = self._step == STEPS
        done = over and self._stayed
        return self._seen(), float(self._stayed), over, False, {"is_success": done}


@EnvConfig.register_subclass("standing")
@dataclass
class StandingConfig(EnvConfig):
    task: str | None = "Stand-v0"
    fps: int = 10
    features: dict[str, PolicyFeature] = field(
        default_factory=lambda: {
            "action": PolicyFeature(FeatureType.ACTION, (8,)),
            "agent_pos": PolicyFeature(FeatureType.STATE, (8,)),
            "pixels": PolicyFeature(FeatureType.VISUAL, (SIZE, SIZE, 3)),
        }
    )
    features_map: dict[str, str] = field(
        default_factory=lambda: {
            "action": "action",
            "agent_pos": "observation.state",
            "pixels": "observation.image",
        }
    )

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        return {}


gym.register("gym_standing/Stand-v0", StandingEnv, max_episode_steps=STEPS)


@RobotConfig.register_subclass("standing_robot")
@dataclass
class StandingRobotConfig(RobotConfig):
    pass


class StandingRobot(Robot):
    """Fails when it is told to go anywhere else. Says in the end how often it was told to stay."""

    config_class = StandingRobotConfig
    name = "standing_robot"
    is_connected = is_calibrated = False

    def __init__(self, config: StandingRobotConfig) -> None:
        super().__init__(config)
        self.cameras = {"top": None}
        self._pose = np.linspace(-80, 80, 8).round(2)
        self._told = 0

    @cached_property
    def observation_features(self) -> dict[str, Any]:
        return {**dict.fromkeys(JOINTS, float), "top": (SIZE, SIZE, 3)}

    @cached_property
    def action_features(self) -> dict[str, Any]:
        return dict.fromkeys(JOINTS, float)

    def connect(self, calibrate: bool = True) -> None:
        self.is_connected = self.is_calibrated = True

    def disconnect(self) -> None:
        self.is_connected = False
        print(f"standing: {self._told} actions, {OVERLAPS[0]} overlaps", flush=True)

    def calibrate(self) -> None:
        pass

    def configure(self) -> None:
        pass

    def get_observation(self) -> dict[str, Any]:
        pose = dict(zip(JOINTS, map(float, self._pose), strict=True))
        return {**pose, "top": np.full((SIZE, SIZE, 3), 128, np.uint8)}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        told = [float(action[name]) for name in JOINTS]
        if not stays(told, self._pose):
            raise RuntimeError(f"told to go to {told}")
        self._told += 1
        return action


OVERLAPS = [0]


def count_overlaps() -> None:
    """Of the calls that leave for the server."""
    infer = RobotGroup.infer

    def counted(self: RobotGroup, *told: Any, **more: Any) -> Any:
        answers = infer(self, *told, **more)
        OVERLAPS[0] += bool(more.get("overlaps"))
        return answers

    RobotGroup.infer = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.modules["standing"] = sys.modules["__main__"]  # where LeRobot looks for a robot's class
    StandingRobotConfig.__module__ = "standing"
    count_overlaps()
    command = sys.argv.pop(1)
    importlib.import_module(f"lerobot.scripts.{command}").main()
