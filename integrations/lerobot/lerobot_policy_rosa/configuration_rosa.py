"""The options of `--policy.type=rosa`."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.configs.policies import PreTrainedConfig


@PreTrainedConfig.register_subclass("rosa")
@dataclass
class RosaConfig(PreTrainedConfig):
    """README.md explains each; names, defaults and errors of the connection are those of `rosa_client.Robot`."""

    device: str | None = "cpu"
    server: str = "tcp://127.0.0.1:5570"
    task: str = ""
    component: str = "system1"
    robot_name: str = ""
    keys: str = ""
    deadline_ms: float = 1000.0
    connect_within_s: float = 60.0
    encoding: str = "jpeg"
    images: dict[str, str] = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)
    joint_unit: str = "rad"
    prompt: str = ""
    n_action_steps: int = 0
    step_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.task:
            raise ValueError("--policy.task: name a task of the ROSA server's factory file")

    @property
    def observation_delta_indices(self) -> None:
        return None

    @property
    def action_delta_indices(self) -> None:
        return None

    @property
    def reward_delta_indices(self) -> None:
        return None

    def get_optimizer_preset(self) -> None:
        raise NotImplementedError("the policy rosa runs on a server and cannot be trained from here")

    def get_scheduler_preset(self) -> None:
        return None

    def validate_features(self) -> None:
        """What does not fit, the server says by name with the first call."""
