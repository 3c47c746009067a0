"""`rosa/panda-token-policy`: an autoregressive action model for one Panda and two 96 x 96 cameras.

Seven tokens an action (`actions.py`). How frames share the weights is its engine:

- `plain`: batches, one after another; each is generated to its end.
- `continuous`: frames come and go between passes; a pass is prefills or decode steps, never both.
- `pipelined`: ActionFlow. A pass holds the prefill of a new frame and one decode step of every frame inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from time import monotonic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rosa_server.engines.pipelined_decode.engine import Engine, Tokens
from rosa_server.engines.pipelined_decode.graphs import runner_for
from rosa_server.engines.pipelined_decode.pipe import Pipe
from rosa_server.models.backend import Capabilities, ModelInput, ModelOutput
from rosa_server.models.panda.common import Look, PandaBackend
from rosa_server.models.panda.kinematics import inverse_path
from rosa_server.models.token_policy.actions import STEP_S, from_tokens
from rosa_server.models.token_policy.generate import StaticCache, generate
from rosa_server.models.token_policy.network import TokenPolicy, words_of

ENGINES = ("plain", "continuous", "pipelined")
LONGEST_WAIT_S = 60.0  # of a caller without a deadline: the engine has died


@dataclass(frozen=True)
class Seen:
    """One observation as the network takes it."""

    front: Tensor  # (1, 3, 96, 96)
    wrist: Tensor
    told: Tensor  # (1, 11)
    words: Tensor  # (1, prompt_tokens)


class TokenPolicyBackend(PandaBackend[TokenPolicy]):
    """Answers `actions` `(8, 8)` float32, joint positions rad and gripper width m, `step_s` and `observation_age_s`."""

    memory_mb = 80.0

    def __init__(
        self,
        weights: str = "",
        engine: str = "plain",
        slots: int = 7,
        enter_at_once: int = 1,
        device: str = "cpu",
        graphs: bool = True,
    ) -> None:
        """`weights`: a safetensors path, default the shipped ones. `slots`: frames in the engine at a time.

        `enter_at_once`: prefills in one pass. `graphs`: CUDA graphs, where the device has them.
        """
        if engine not in ENGINES:
            raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
        if slots < 1 or enter_at_once < 1:
            raise ValueError(f"slots and enter_at_once: expected at least 1, got {slots} and {enter_at_once}")
        super().__init__(TokenPolicy, weights, "panda_token_policy.safetensors", device)
        self._kind = engine
        self._slots, self._enter_at_once, self._graphs = slots, enter_at_once, graphs
        at_once = 1 if engine == "plain" else slots
        self.capabilities = Capabilities(at_once, engine=engine, counts=self.counts)
        self._engine: Engine[Seen] | None = None

    def load(self) -> None:
        """Read the weights and start the engine."""
        super().load()
        if self._kind != "plain":
            config = self.network.config
            pipe = Pipe(
                config.action_tokens, self._slots, self._enter_at_once, packed=self._kind == "pipelined"
            )
            runner = runner_for(self.network.decoder, config, self._slots, self._graphs)
            self._engine = Engine(pipe, runner, self._embed)
            self._engine.start()

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One chunk per input. Raises `TimeoutError` where the engine cannot answer by an input's deadline."""
        began_s = monotonic()
        look = self.look(batch)
        words = words_of([one.prompt for one in batch], self.network.config).to(self._device)
        tokens = self._pipelined(batch, look, words) if self._engine else self._plain(look, words)
        path = from_tokens(tokens, look.tool_m)
        joints = inverse_path(path[..., :3], look.q_rad)
        actions = np.concatenate([joints, path[..., 3:]], axis=-1).astype(np.float32)
        inside_s = monotonic() - began_s
        return [
            ModelOutput(
                {
                    "actions": chunk,
                    "step_s": np.array([STEP_S], np.float32),
                    "observation_age_s": np.array([one.waited_s + inside_s], np.float32),
                }
            )
            for one, chunk in zip(batch, actions, strict=True)
        ]

    def counts(self) -> dict[str, int]:
        """What the engine has done since it started; nothing without one."""
        return self._engine.counts() if self._engine is not None else {}

    def close(self) -> None:
        """End the engine and forget the network."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        super().close()

    def _plain(self, look: Look, words: Tensor) -> NDArray[np.int64]:
        network = self.network
        with torch.inference_mode():
            prefixes = network.prefix(network.see(*look.pictures), look.told, words)
            cache = StaticCache(network.config, len(prefixes), prefixes.device, prefixes.dtype)
            return generate(network.decoder, network.config, prefixes, cache).cpu().numpy()

    def _pipelined(self, batch: Sequence[ModelInput], look: Look, words: Tensor) -> NDArray[np.int64]:
        assert self._engine is not None
        answers: list[tuple[int, Future[Tokens]]] = []
        for row, one in enumerate(batch):
            at = slice(row, row + 1)
            seen = Seen(look.pictures[0][at], look.pictures[1][at], look.told[at], words[at])
            answers.append(self._engine.submit(seen, one.robot, one.deadline_s))
            one.cancellation.when(partial(self._engine.cancel, answers[-1][0]))
        try:
            return np.stack([answer.result(LONGEST_WAIT_S) for _, answer in answers])
        except TimeoutError:
            for number, _ in answers:  # whoever asked for all of them asks again, or no more
                self._engine.cancel(number)
            raise

    def _embed(self, frames: Sequence[Seen]) -> Tensor:
        """The prefixes of the frames that enter, `(n, L_P, width)`."""
        network = self.network
        parts = [
            torch.cat([getattr(one, name) for one in frames]) for name in ("front", "wrist", "told", "words")
        ]
        return network.prefix(network.see(parts[0], parts[1]), parts[2], parts[3])
