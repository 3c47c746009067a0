"""The backend's questions as calls to the KV sharing engine, and what its answers mean."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rosa_server.engines.kv_sharing.cache import Cache
from rosa_server.engines.kv_sharing.engine import KvSharingEngine
from rosa_server.engines.kv_sharing.network import PrefixNetwork
from rosa_server.engines.kv_sharing.passes import Grammar, PassCall
from rosa_server.engines.kv_sharing.turns import TurnLimits
from rosa_server.models.backend import ModelInput
from rosa_server.models.panda.common import Look
from rosa_server.models.vla.network import VlaNetwork
from rosa_server.models.vla.reaching import joints_of
from rosa_server.models.vla.speech import LONGEST_PROMPT, VERDICTS, Speech
from rosa_server.models.vla.tokenizer import END

LONGEST_WAIT_S = 60.0  # of a caller without a deadline: the engine has died
# Of several robots in one turn: through gateway and worker a round then takes 0.6 of the CPU time that it takes with
# one of each (benchmarks/engines/kv_serving.py).
PREFILLS, ACTIONS = 8, 8


def observation_name(one: ModelInput) -> str:
    """What a request is about: the gateway's name for it, and a digest of all that the model is shown.

    So a robot that says one name for two observations by mistake is not answered about the wrong one. Empty where the
    gateway has no name for it: then nothing is shared.
    """
    if not one.observation:
        return ""
    digest = blake2b(digest_size=16)
    for kind in (one.images, one.state):
        for name in sorted(kind):
            digest.update(f"{name} {kind[name].dtype} {kind[name].shape};".encode())
            digest.update(kind[name].tobytes())
    return f"{one.observation} {digest.hexdigest()}"


@dataclass(frozen=True)
class Arm:
    """Where the robot of a call is."""

    tool_m: NDArray[np.float64]  # (3,)
    q_rad: NDArray[np.floating]  # (7,)


@dataclass(frozen=True)
class Chunk:
    """An answer of the action expert."""

    actions: NDArray[np.float32]  # (H, 8) joints and gripper
    updates: Tensor  # (flow steps, H, A): by how much each step of the flow changed each action


def refined(network: PrefixNetwork, cache: Cache, calls: Sequence[PassCall]) -> list[Chunk]:
    """The flow of calls that all have as many steps, and the joints of all of them. `extra` of each is an `Arm`."""
    noise = torch.cat([call.noise for call in calls if call.noise is not None])
    chunks, updates = network.refine(cache, noise, calls[0].steps)
    arms = [call.extra for call in calls if isinstance(call.extra, Arm)]
    tools, joints = np.stack([arm.tool_m for arm in arms]), np.stack([arm.q_rad for arm in arms])
    return [Chunk(*one) for one in zip(joints_of(chunks, tools, joints), updates, strict=True)]


class Questions:
    """Asks a running engine for the answers of requests."""

    def __init__(
        self, network: VlaNetwork, speech: Speech, memory_mb: float, slice_tokens: int, flow_steps: int
    ) -> None:
        """Raises `ValueError` where `memory_mb` does not hold two calls at a time."""
        self._network, self._speech, self._steps = network, speech, flow_steps
        self._longest = max(len(speech.answer(plan)) for plan in speech.plans)
        limits = TurnLimits(slice_tokens, PREFILLS, ACTIONS)
        lengths = {"longest_prompt": LONGEST_PROMPT, "longest_answer": self._longest}
        self._engine = KvSharingEngine(network, END, memory_mb, limits, flow=refined, **lengths)
        self._grammars: dict[str, Grammar] = {role: self._verdicts(role) for role in VERDICTS}
        self._engine.start()

    def answers(
        self,
        batch: Sequence[ModelInput],
        look: Look,
        roles: Sequence[str],
        questions: Sequence[Sequence[int]],
        noise: Tensor,
    ) -> list[object]:
        """Of each input a `Chunk` (`system1`) or `Words`. `noise` `(1, H, A)`.

        Raises `TimeoutError` where an answer does not come by an input's deadline.
        """
        asked: list[tuple[int, Future[object]]] = []
        try:
            for row, (one, role, question) in enumerate(zip(batch, roles, questions, strict=True)):
                acts, at = role == "system1", slice(row, row + 1)
                call = PassCall(
                    "action" if acts else "language",
                    [picture[at] for picture in look.pictures],
                    look.told[at],
                    tuple(question),
                    1 if acts or role in VERDICTS else self._longest,
                    noise if acts else None,
                    self._steps,
                    observation_name(one),
                    one.deadline_s,
                    None if acts else self._grammars.get(role, self._speech.next_tokens),
                    Arm(look.tool_m[row], look.q_rad[row]) if acts else None,
                )
                asked.append(self._engine.submit(call))
                one.cancellation.when(partial(self._engine.cancel, asked[-1][0]))
            return [answer.result(LONGEST_WAIT_S) for _, answer in asked]
        except BaseException:
            for number, _ in asked:  # whoever asked for all of them asks again, or no more
                self._engine.cancel(number)
            raise

    def counts(self) -> dict[str, int]:
        """See `KvSharingEngine.counts`."""
        return self._engine.counts()

    def restart_counts(self) -> None:
        """See `KvSharingEngine.restart_counts`."""
        self._engine.restart_counts()

    def close(self) -> None:
        """End the engine. May be called twice."""
        self._engine.close()

    def _verdicts(self, role: str) -> Grammar:
        tokens = [self._speech.tokenizer.encode(word)[0] for word in VERDICTS[role]]
        return lambda said: () if said else tokens
