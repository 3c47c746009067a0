"""The policy: it has no weights, and asks a ROSA server for the actions of every robot of a batch at once."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor

from lerobot_policy_rosa.configuration_rosa import RosaConfig
from lerobot_policy_rosa.mapping import NamesAndUnits
from rosa_client import GroupQueue, RobotGroup


class RosaPolicy(PreTrainedPolicy):
    """Its calls raise `rosa_client.RobotError`, with the cause."""

    config_class = RosaConfig
    name = "rosa"

    def __init__(self, config: RosaConfig, *inputs: Any, **more: Any) -> None:
        """`more`: what LeRobot tells of a dataset; not needed."""
        super().__init__(config)
        self._mapping = NamesAndUnits(config.images, config.state, config.joint_unit, config.prompt)
        self._group: RobotGroup | None = None
        self._queue: GroupQueue | None = None

    @classmethod
    def from_pretrained(
        cls, pretrained_name_or_path: Any = None, *, config: PreTrainedConfig | None = None, **more: Any
    ) -> Self:
        """There is nothing to load but, with a path, the options."""
        if config is None:
            config = PreTrainedConfig.from_pretrained(pretrained_name_or_path)
        policy = cls(config)
        policy.eval()
        return policy

    def reset(self) -> None:
        """An episode begins: nothing of an older chunk is played."""
        if self._queue is not None:
            self._queue.clear()

    def select_action(self, batch: dict[str, Any], **more: Any) -> Tensor:
        """The next action of each robot, (robots, values)."""
        seen, prompts = self._asked(batch)
        assert self._queue is not None
        actions = self._queue.next(seen, prompts=prompts, component=self.config.component)
        return torch.from_numpy(self._mapping.actions(actions))

    def predict_action_chunk(
        self,
        batch: dict[str, Any],
        inference_delay: int | None = None,
        prev_chunk_left_over: Tensor | None = None,
        **more: Any,
    ) -> Tensor:
        """A chunk for each robot, (robots, steps, values). With `prev_chunk_left_over` (steps, values), of one robot,
        the chunk joins it."""
        seen, prompts = self._asked(batch)
        assert self._group is not None
        left = None if prev_chunk_left_over is None else prev_chunk_left_over.detach().cpu().numpy()
        if left is not None and left.ndim == 3 and len(left) == 1:
            left = left[0]
        overlap = self._mapping.overlap(left, inference_delay, self.config.step_s)
        answers = self._group.infer(
            dict(enumerate(seen)),
            prompts=prompts,
            component=self.config.component,
            overlaps={0: overlap} if overlap is not None and len(seen) == 1 else None,
        )
        steps = min(len(answer.actions) for answer in answers.values())
        chunks = np.stack([answers[number].actions[:steps] for number in range(len(seen))])
        return torch.from_numpy(self._mapping.actions(chunks))

    def supports_rtc(self) -> bool:
        return True

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Any] | None]:
        raise NotImplementedError("the policy rosa runs on a server and cannot be trained from here")

    def get_optim_params(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """Its robots leave the server."""
        if self._group is not None:
            self._group.close()
        self._group = self._queue = None

    def _asked(self, batch: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[int, str]]:
        """Observation and prompt of each robot, for which there is a place at the server afterwards."""
        arrays = {
            name: one.detach().cpu().numpy() if isinstance(one, Tensor) else one
            for name, one in batch.items()
        }
        seen = self._mapping.observations(arrays)
        if self._group is None or self._group.count != len(seen):
            self.close()
            self._group = RobotGroup(
                self.config.server,
                self.config.task,
                len(seen),
                name=self.config.robot_name,
                keys=self.config.keys,
                deadline_ms=self.config.deadline_ms,
                connect_within_s=self.config.connect_within_s,
                encoding=self.config.encoding,
            )
            self._queue = GroupQueue(self._group, self.config.n_action_steps)
        return seen, self._mapping.prompts(arrays, len(seen))
