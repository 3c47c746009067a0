"""Horizon policies: how many steps of a chunk the robot plays, chosen anew for each answer (Kairos 3.1).

A backend exposes by how much each flow step changed each action (`ModelOutput.updates`); a policy maps that to a number
of steps and says why. The worker applies the policy that the request names, so a backend needs no code for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.spaces import chunks_in
from rosa_contract.wire.horizon import STATIC, THRESHOLD, Horizon
from rosa_contract.wording import nearest
from rosa_server.models.backend import ModelOutput


@dataclass(frozen=True)
class Choice:
    """Steps to play, and the reason in words."""

    steps: int
    reason: str


@dataclass(frozen=True)
class Chunk:
    """What a policy decides on: `steps` actions, and their `updates` `(flow steps, steps, values)` where there are.

    Of a chunk that joins another the frozen steps are left out, and a horizon counts from there.
    """

    steps: int
    updates: NDArray[np.floating] | None


Policy = Callable[[Horizon, Chunk], Choice]


def static(spec: Horizon, chunk: Chunk) -> Choice:
    """Always `steps`, whatever the updates are."""
    return Choice(spec.within(spec.fewest, chunk.steps), "static")


def threshold(spec: Horizon, chunk: Chunk) -> Choice:
    """Kairos 3.1: the steps before the first one whose final update is larger than (1 + t) times the mean of its
    earlier updates, but at least `min`. Magnitudes are Euclidean norms over the values of one action.

    Raises `ValueError` where the model has no updates, or fewer than two flow steps.
    """
    if chunk.updates is None or len(chunk.updates) < 2:
        raise ValueError("horizon policy threshold needs a model that exposes two or more flow steps")
    size = np.linalg.norm(np.asarray(chunk.updates, np.float64), axis=-1)
    final, earlier = size[-1], size[:-1].mean(axis=0)
    factor = 1 + (spec.t or 0.0)
    unsure = np.flatnonzero(final > factor * earlier)
    if not unsure.size:
        steps = spec.within(chunk.steps, chunk.steps)
        return Choice(
            steps, f"no update is over {factor:g} times its mean before{_limited(steps, chunk.steps)}"
        )
    converged = int(unsure[0])
    steps = spec.within(converged, chunk.steps)
    ratio = final[converged] / max(earlier[converged], 1e-12)
    words = f"step {converged + 1}'s last update is {ratio:.2f} times its mean before, over {factor:g}"
    return Choice(steps, words + _limited(steps, converged))


def _limited(steps: int, wanted: int) -> str:
    if steps == wanted:
        return ""
    return f"; {'at most' if steps < wanted else 'at least'} {steps}"


POLICIES: dict[str, Policy] = {STATIC: static, THRESHOLD: threshold}


def register(name: str, policy: Policy) -> None:
    """Add a policy, such as one that comes with a backend of your own. Raises `ValueError` for a name that is taken."""
    if POLICIES.setdefault(name, policy) is not policy:
        raise ValueError(f"horizon policy {name!r} is already registered")


def unknown(name: str) -> str:
    """Why there is no such policy; empty when there is."""
    if name in POLICIES:
        return ""
    return f"no horizon policy {name!r}{nearest(name, POLICIES)}; known: {', '.join(POLICIES)}"


def choose(spec: Horizon, output: ModelOutput, frozen: int = 0) -> Choice:
    """The horizon of a model's answer, counted after its first `frozen` steps, which were given to the model.

    Raises `ValueError` for an unknown policy, or an answer that it cannot use.
    """
    if problem := unknown(spec.policy):
        raise ValueError(problem)
    chunks = chunks_in(output.arrays)
    if not chunks:
        raise ValueError(f"horizon policy {spec.policy}: the model answers no actions")
    steps = len(output.arrays[chunks[0]])
    frozen = min(frozen, steps - 1)
    updates = None if output.updates is None else output.updates[:, frozen:]
    return POLICIES[spec.policy](spec, Chunk(steps - frozen, updates))
