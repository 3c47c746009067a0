"""A model server of vla-eval that asks a ROSA server: every environment of an evaluation is a robot there.

    pip install vla-eval path/to/rosa
    python rosa_model_server.py --address 127.0.0.1:8001 --args.server tcp://gpu-box:5570 --args.task pick \\
        --args.state '{"joint_position": 7, "gripper_width": 1}'
    vla-eval run -c YOUR_BENCHMARK.yaml --server-url ws://127.0.0.1:8001   # several --shard-id share batches

An observation's `images` go to cameras of the same names, `state` to the task's states in the order of `--args.state`,
and `task_description` is the prompt. Nothing is normalised here: the adapter of the served model does that.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Optional  # noqa: UP035

import numpy as np
from vla_eval.model_servers.base import ModelServer, SessionContext
from vla_eval.model_servers.serve import run_server

from rosa_client import AsyncRobot

LEFT_AFTER_S = 120.0  # a session that says nothing any more: vla-eval does not tell when one ends


class RosaModelServer(ModelServer):
    """Asks as soon as an observation comes. A refusal or a missed deadline is an error of that episode."""

    def __init__(
        self,
        server: str,
        task: str,
        component: str = "system1",
        images: Optional[Dict[str, str]] = None,  # noqa: UP006, UP045 - jsonargparse reads these
        state: Optional[Dict[str, int]] = None,  # noqa: UP006, UP045
        n_action_steps: int = 1,
        deadline_ms: float = 1000.0,
        encoding: str = "jpeg",
    ) -> None:
        """`images`: vla-eval's camera -> the task's; default: the same name. `state`: names and lengths of the parts of
        the observation's state; default: all of it is `joint_position`. `n_action_steps`: of each chunk; 0: as many as
        the server chose, or all."""
        self._server, self._task, self._component = server, task, component
        self._images, self._state, self._steps = images or {}, state or {}, n_action_steps
        self._deadline_ms, self._encoding = deadline_ms, encoding
        self._robots: dict[str, AsyncRobot] = {}
        self._left: dict[str, list[Any]] = {}  # actions of the last chunk
        self._heard_s: dict[str, float] = {}

    async def on_episode_start(self, config: dict[str, Any], ctx: SessionContext) -> None:
        self._left.pop(ctx.session_id, None)
        for session, heard_s in list(self._heard_s.items()):
            if session != ctx.session_id and time.monotonic() > heard_s + LEFT_AFTER_S:
                self._forget(session)

    async def on_observation(self, obs: dict[str, Any], ctx: SessionContext) -> None:
        session = ctx.session_id
        self._heard_s[session] = time.monotonic()
        if not self._left.get(session):
            if session not in self._robots:
                self._robots[session] = AsyncRobot(
                    self._server, self._task, deadline_ms=self._deadline_ms, encoding=self._encoding
                )
            prompt = obs.get("task_description") or ""
            answer = await self._robots[session].infer(
                self._seen(obs), prompt=prompt, component=self._component
            )
            steps = min(self._steps, answer.steps) if self._steps else answer.steps
            self._left[session] = list(answer.actions[:steps])
        await ctx.send_action({"actions": self._left[session].pop(0)})

    def get_action_spec(self) -> dict[str, Any]:
        return {}  # the served model's business

    def get_observation_spec(self) -> dict[str, Any]:
        return {}

    def _seen(self, obs: dict[str, Any]) -> dict[str, Any]:
        seen: dict[str, Any] = {
            self._images.get(camera, camera): np.asarray(picture)
            for camera, picture in (obs.get("images") or {}).items()
        }
        if obs.get("state") is not None:
            values = np.asarray(obs["state"], np.float32).ravel()
            lengths = self._state or {"joint_position": len(values)}
            if sum(lengths.values()) != len(values):
                raise ValueError(
                    f"state: {lengths} does not add up to the {len(values)} values of the observation"
                )
            ends = np.cumsum([*lengths.values()])[:-1]
            seen |= dict(zip(lengths, np.split(values, ends), strict=True))
        return seen

    def _forget(self, session: str) -> None:
        self._left.pop(session, None)
        del self._heard_s[session]
        if (robot := self._robots.pop(session, None)) is not None:
            robot.close()


if __name__ == "__main__":
    run_server(RosaModelServer)
