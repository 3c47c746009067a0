"""What looks wrong between a model and a robot, from what the model was asked and answered. Pure.

A wrong convention rarely fails: the arm just moves wrongly. So each judge asks what the answers would be like under
another convention, and speaks up where that one fits what was recorded, or the robot, and the present one does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rosa_contract.config.spaces import ACTIONS, chunks_in
from rosa_server.trying.explaining import (
    ACTIONS_DEG,
    DEG,
    FAR_RAD,
    UNIT_OF_ACTIONS,
    explained,
    first_rad,
    paths,
    placed,
)
from rosa_server.trying.gripper_judge import judge_grippers
from rosa_server.trying.steps import Array, ModelTrial, unlike
from rosa_server.trying.suspicion import GOOD, Suspicion

SHORT = 0.6  # of the time that the robot acts on a chunk
OF_PICTURES = {"colours_swapped", "cameras_swapped", "camera_upside_down"}
FAR_BEYOND_RAD = np.pi  # no model means that, if its numbers are radians


def judge(trial: ModelTrial) -> list[Suspicion]:
    """Everything that looks wrong; the best explanation only where several would explain the same."""
    if trial.misfit:  # of any other comparison with it nothing can be said
        do = "bring the two together with an adapter (docs/bring_your_own.md), or describe the robot as it is"
        return [Suspicion("robot_differs", trial.misfit, do)]
    if first := [*_shapes(trial)]:
        return first
    found = [*_twice(trial), *_deaf(trial)]
    best = explained(trial)
    found += best
    if not {one.cause for one in best} & OF_PICTURES:  # what the gripper does follows from them
        found += [*judge_grippers(trial)]
    if not best:
        found += [*_places(trial), *_short(trial)]
    if not found:
        found += [*_unlike(trial)]
    return found


def _shapes(trial: ModelTrial) -> Iterator[Suspicion]:
    if all(one.unreachable for one in trial.answered):
        yield _unreachable(trial)
        return
    for one in trial.answered:
        if one.unreachable:
            continue
        for name, values in one.output.arrays.items():
            if not np.isfinite(np.asarray(values, np.float64)).all():
                yield Suspicion(
                    "not_finite",
                    f"{name} has numbers that are not finite",
                    "look for a division by a standard deviation of 0, or weights of another format",
                )
                return
        if trial.component == "system1" and not chunks_in(one.output.arrays):
            got = ", ".join(one.output.arrays) or "no arrays"
            yield Suspicion(
                "no_actions",
                f"it answered {got}",
                "an action model answers `actions`; an adapter makes them of other arrays",
            )
            return
        given = one.output.arrays.get(ACTIONS)
        if given is not None and (np.ndim(given) != 2 or not np.size(given)):
            yield Suspicion(
                "wrong_columns",
                f"actions have the shape {np.shape(given)}, expected (rows, columns), also of a single row",
                "answer an array with a row for each step of time",
            )
            return
        here, path = one.step.here, one.path
        has = len(here) if here is not None else trial.columns
        if path is not None and has is not None and path.rows.shape[1] != has:
            yield Suspicion(
                "wrong_columns",
                f"actions have {path.rows.shape[1]} columns, the robot has {has}, a joint or a gripper each",
                "say in the adapter's `actions` what each column is",
            )
            return


def _unreachable(trial: ModelTrial) -> Suspicion:
    refused = [one.unreachable for one in trial.answered if one.unreachable]
    return Suspicion(
        "unreachable",
        f"{len(refused)} of {len(trial.answered)} answers lead where the arm does not get, such as: {refused[0]}",
        "compare `unit`, `scale`, `mode` and `frame` of the tool's parts, and the chain of the robot file",
    )


def _twice(trial: ModelTrial) -> Iterator[Suspicion]:
    if not trial.answered:
        return
    names = list(trial.answered[0].step.images)
    for index, name in enumerate(names):
        for other in names[index + 1 :]:
            pairs = [(one.step.images[name], one.step.images[other]) for one in trial.answered]
            if all(np.array_equal(a, b) for a, b in pairs):
                yield Suspicion(
                    "camera_twice",
                    f"{name} and {other} show the very same picture in {_all(len(pairs))}",
                    "map each of the model's cameras to a separate camera",
                )


def _all(count: int) -> str:
    return "the one observation" if count == 1 else f"all {count} observations"


def _deaf(trial: ModelTrial) -> Iterator[Suspicion]:
    """Whether the answers depend on anything."""
    rows = [one.path.rows for one in trial.answered if one.path is not None]
    if not rows:
        return
    moves = [
        one.path.rows[:, : len(one.step.here)] - one.step.here[: one.path.rows.shape[1]]
        for one in trial.answered
        if one.path is not None and one.step.here is not None
    ]
    same = any(len(group) > 1 and all(_equal(group[0], one) for one in group) for group in (rows, moves))
    changed = set(trial.changed)
    if (changed and changed <= set(trial.without_effect)) or same:
        words = f"answers are the same for {_all(len(rows))}" if same else "the answer is always the same"
        left_out = f", also without {', '.join(trial.without_effect)}" if trial.without_effect else ""
        yield Suspicion(
            "constant_answer",
            words + left_out,
            "check that the weights were loaded, that normalisation does not flatten the inputs, and that the model is"
            " given the keys that it reads",
        )
        return
    for name in trial.without_effect:
        if name.startswith("camera "):
            yield Suspicion(
                "camera_ignored",
                f"the answer is the same when {name} is black",
                "check that the model reads this key; leave the camera out if it needs none",
            )


def _equal(one: Array, other: Array) -> bool:
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-6, atol=1e-9))


def _places(trial: ModelTrial) -> Iterator[Suspicion]:
    """Where the actions go, whatever was recorded."""
    if any(one.unreachable for one in trial.answered):
        yield _unreachable(trial)
    moving = paths(trial)
    if not moving:
        return
    if trial.limits_rad is not None:
        low, high = trial.limits_rad
        beyond = 0.0
        for one in moving:
            assert one.path is not None
            joints = one.path.rows[:, : len(low)]
            beyond = max(beyond, float(np.maximum(low - joints, joints - high).max()))
        rows = np.concatenate([one.path.rows[:, : len(low)] for one in moving if one.path is not None])
        if beyond > FAR_BEYOND_RAD and ((rows / DEG > low) & (rows / DEG < high)).all():
            words = f"actions are up to {beyond:.0f} rad beyond the joint limits, and within them if {ACTIONS_DEG}"
            yield Suspicion("degrees_for_radians", words, UNIT_OF_ACTIONS)
            return
        if beyond > 0.01:
            yield Suspicion(
                "out_of_limits",
                f"actions are up to {beyond:.2f} rad beyond the joint limits of the robot file",
                "compare the order of the joints, their signs and zeros with those that the model was trained on",
            )
            return
    from_here = placed(trial)
    far, now = first_rad(from_here) if from_here else 0.0, unlike(trial.answered)
    if far > FAR_RAD and (now is None or now >= GOOD):  # a single row may be far, and right
        yield Suspicion(
            "far_away",
            f"the first action is {far:.2f} rad from where the robot is, as a mean over its joints",
            "compare `mode` (absolute, delta), order and signs of the joints in the adapter's `actions`",
        )


def _short(trial: ModelTrial) -> Iterator[Suspicion]:
    """Whether the robot has something to do until it asks again."""
    path = next((one.path for one in trial.answered if one.path is not None), None)
    if path is None or trial.period_s is None:
        return
    lasts_s = len(path.rows) * path.step_s
    if lasts_s < SHORT * trial.period_s:
        yield Suspicion(
            "chunk_short",
            f"{len(path.rows)} rows of {path.step_s * 1000:.0f} ms are {lasts_s:.2f} s of the {trial.period_s:.2f} s"
            " that the robot acts on them; it stands still for the rest",
            "compare `horizon` and `step_s` of the adapter's `actions` with what the model was trained on, and"
            " `action_period_ms` of the task with both",
        )


def _unlike(trial: ModelTrial) -> Iterator[Suspicion]:
    now = unlike(trial.answered)
    if now is not None and now >= 1.0:
        yield Suspicion(
            "unlike_recorded",
            f"moves differ from the recorded ones by {now:.0%} of what was moved: to stand still would be as good",
            "no single convention explains it: is the model trained for this task, camera view and robot?",
        )
