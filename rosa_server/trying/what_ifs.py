"""The same observation under another convention: what a judge compares with. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from rosa_server.trying.explaining import (
    CAMERAS,
    COLOURS,
    DEG,
    STATE_DEG,
    STATE_GRIPPER,
    STATE_RAD,
    UPSIDE_DOWN,
)
from rosa_server.trying.steps import GRIPPER, JOINTS, TrialStep

Change = Callable[[TrialStep], TrialStep]


def conventions(step: TrialStep, grippers_m: Sequence[tuple[float, float]]) -> dict[str, Change]:
    """Name of a what-if -> how it changes a step; only those that `step` has the inputs for."""
    found: dict[str, Change] = {}
    if step.images:
        found[COLOURS] = _colours
    for one, other in combinations(step.images, 2):
        if step.images[one].shape == step.images[other].shape:
            found[f"{CAMERAS}{one} {other}"] = _exchanged(one, other)
    for camera in step.images:
        found[f"{UPSIDE_DOWN}{camera}"] = _turned_round([camera])
    if len(step.images) > 1:
        found[UPSIDE_DOWN + ",".join(step.images)] = _turned_round(list(step.images))
    if JOINTS in step.state:
        found[STATE_DEG] = scaled(DEG)
        found[STATE_RAD] = scaled(1 / DEG)
    if GRIPPER in step.state and grippers_m:
        found[STATE_GRIPPER] = _turned(grippers_m)
    return found


def kind_of(name: str) -> str:
    """Changes of one kind exclude each other."""
    return {STATE_RAD: STATE_DEG}.get(name, name.partition(" ")[0])


def without(step: TrialStep) -> Iterator[tuple[str, TrialStep]]:
    """(what is taken away, the step without it), each in turn."""
    for camera, picture in step.images.items():
        yield f"camera {camera}", replace(step, images={**step.images, camera: np.zeros_like(picture)})
    for name, values in step.state.items():
        moved = np.asarray(values) + (0.01 if name == GRIPPER else 0.1)
        yield (
            f"state {name}",
            replace(step, state={**step.state, name: moved.astype(np.asarray(values).dtype)}),
        )
    yield "prompt", replace(step, prompt="" if step.prompt else "open the door")


def _colours(step: TrialStep) -> TrialStep:
    turned = {name: np.ascontiguousarray(picture[..., ::-1]) for name, picture in step.images.items()}
    return replace(step, images=turned)


def _exchanged(one: str, other: str) -> Change:
    def change(step: TrialStep) -> TrialStep:
        return replace(step, images={**step.images, one: step.images[other], other: step.images[one]})

    return change


def _turned_round(cameras: Sequence[str]) -> Change:
    """Their pictures by 180 degrees."""

    def change(step: TrialStep) -> TrialStep:
        turned = {name: np.ascontiguousarray(step.images[name][::-1, ::-1]) for name in cameras}
        return replace(step, images={**step.images, **turned})

    return change


def scaled(factor: float) -> Change:
    """Joint positions times this."""

    def change(step: TrialStep) -> TrialStep:
        joints = (np.asarray(step.state[JOINTS]) * factor).astype(np.float32)
        return replace(step, state={**step.state, JOINTS: joints})

    return change


def _turned(grippers_m: Sequence[tuple[float, float]]) -> Change:
    def change(step: TrialStep) -> TrialStep:
        given = np.asarray(step.state[GRIPPER])
        ends = [sum(grippers_m[min(number, len(grippers_m) - 1)]) for number in range(len(given))]
        width = (np.array(ends) - given).astype(np.float32)
        return replace(step, state={**step.state, GRIPPER: width})

    return change


def spread(count: int, limit: int) -> Sequence[int]:
    """Numbers of at most `limit` of `count` steps, evenly over them."""
    return sorted({round(one) for one in np.linspace(0, count - 1, min(count, limit))}) if count else ()
