"""What looks wrong between a model and a robot, from what the model was asked and answered. Pure.

A wrong convention rarely fails: the arm just moves wrongly. So each judge asks what the answers would be like under
another convention, and speaks up where that one fits what was recorded, or the robot, and the present one does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rosa_contract.config.spaces import ACTIONS, chunks_in
from rosa_server.trying.gripper_judge import cause_of, judge_grippers
from rosa_server.trying.grippers import Written, shown
from rosa_server.trying.steps import Answered, Array, ModelTrial, unlike
from rosa_server.trying.suspicion import BETTER, GOOD, Suspicion

DEG = 180 / np.pi
FAR_RAD = 0.35  # from where the robot is to the first action: further than an arm gets in one step
FAR_BEYOND_RAD = np.pi  # no model means that, if its numbers are radians
RATES = (0.2, 0.25, 1 / 3, 0.4, 0.5, 2 / 3, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
ABOUT_RIGHT = (0.6, 1.7)  # how much slower a chunk may be than the recording: a busy server makes robots wait

# Names of what-ifs; `what_ifs.py` makes the inputs.
COLOURS, STATE_DEG, STATE_RAD, STATE_GRIPPER = (
    "colours",
    "state_in_degrees",
    "state_in_radians",
    "state_gripper",
)
# What the model is given and what it answers, both.
BOTH_DEG, BOTH_RAD, AS_LEROBOT = "both_in_degrees", "both_in_radians", "as_lerobot"
CAMERAS = "cameras "  # followed by the two names
WRITTEN = "state_gripper_as "  # followed by how the width is written to the model, and how it might be meant


def judge(trial: ModelTrial) -> list[Suspicion]:
    """Everything that looks wrong; the best explanation only where several would explain the same."""
    if trial.misfit:  # of any other comparison with it nothing can be said
        do = "bring the two together with an adapter (docs/bring_your_own.md), or describe the robot as it is"
        return [Suspicion("robot_differs", trial.misfit, do)]
    if first := [*_shapes(trial)]:
        return first
    found = [*_twice(trial), *_deaf(trial)]
    best = explained(trial)
    found += [*best, *judge_grippers(trial)]
    if not best:
        found += [*_places(trial)]
    if not found:
        found += [*_unlike(trial)]
    return found


def explained(trial: ModelTrial) -> list[Suspicion]:
    """The one other convention that fits best, if any does."""
    now = unlike(trial.answered)
    if now is None:
        return [*_units_alone(trial)]
    if now < GOOD:
        return []
    others = [*_units(trial, now), *_what_ifs(trial, now), *_rate(trial, now)]
    # Any model is better off standing still (error 1) than moving 57 times too far: that alone proves nothing.
    fitting = [one for one in others if one[0] < BETTER * min(now, 1.0)]
    return [min(fitting, key=lambda one: round(one[0], 3))[1]] if fitting else [*_units_alone(trial)]


def _paths(trial: ModelTrial) -> list[Answered]:
    return [one for one in trial.answered if one.path is not None and one.step.here is not None]


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
    paths = [one.path.rows for one in trial.answered if one.path is not None]
    if not paths:
        return
    moves = [
        one.path.rows[:, : len(one.step.here)] - one.step.here[: one.path.rows.shape[1]]
        for one in trial.answered
        if one.path is not None and one.step.here is not None
    ]
    same = any(len(group) > 1 and all(_equal(group[0], one) for one in group) for group in (paths, moves))
    changed = set(trial.changed)
    if (changed and changed <= set(trial.without_effect)) or same:
        words = f"answers are the same for {_all(len(paths))}" if same else "the answer is always the same"
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


ACTIONS_DEG = "the actions are in degrees and taken as radians"
ACTIONS_RAD = "the actions are in radians and taken as degrees"
UNIT_OF_ACTIONS = "correct `unit` of the joints in the adapter's `actions`"


def _units_alone(trial: ModelTrial) -> Iterator[Suspicion]:
    """Joint positions that begin where the robot is, in the other unit."""
    paths = _paths(trial)
    if not paths:
        return
    far = _first_rad(paths)
    for words, factor in ((ACTIONS_DEG, 1 / DEG), (ACTIONS_RAD, DEG)):
        near = _first_rad(paths, factor)
        if far > FAR_RAD and near < FAR_RAD and near < 0.25 * far:
            yield Suspicion(
                "degrees_for_radians",
                f"the first action is {far:.2f} rad from where the robot is, and {near:.2f} rad if {words}",
                UNIT_OF_ACTIONS,
            )
            return


def _units(trial: ModelTrial, now: float) -> Iterator[tuple[float, Suspicion]]:
    """(error then, words): positions, or moves, in the other unit."""
    for words, factor in ((ACTIONS_DEG, 1 / DEG), (ACTIONS_RAD, DEG)):
        turned = [
            replace(one, path=replace(one.path, rows=one.path.rows * factor))
            for one in trial.answered
            if one.path is not None
        ]
        for then in (unlike(turned), unlike(trial.answered, scale=factor)):
            if then is not None:
                said = f"actions differ from the recorded ones by {now:.0%}, and by {then:.0%} if {words}"
                yield then, Suspicion("degrees_for_radians", said, UNIT_OF_ACTIONS)


def _first_rad(paths: Sequence[Answered], factor: float = 1.0) -> float:
    """Mean distance of the first action's joints, times `factor`, from the robot's, rad; median over the answers."""
    distances = []
    for one in paths:
        assert one.path is not None and one.step.here is not None
        count = one.step.joint_count
        distances.append(float(np.abs(one.path.rows[0, :count] * factor - one.step.here[:count]).mean()))
    return float(np.median(distances))


WHAT_IFS: Mapping[str, tuple[str, str, str]] = {
    COLOURS: (
        "colours_swapped",
        "with red and blue exchanged",
        "correct `colours` of the cameras in the adapter, or the camera's `encoding` in the robot file",
    ),
    STATE_DEG: (
        "degrees_for_radians",
        "with the joint positions that the model is given in degrees",
        "correct `unit` of joint_position in the adapter's `state`",
    ),
    STATE_RAD: (
        "degrees_for_radians",
        "with the joint positions that the model is given in radians",
        "correct `unit` of joint_position in the adapter's `state`",
    ),
    BOTH_DEG: (
        "degrees_for_radians",
        "with joint positions in degrees, as the model is given them and as it answers them",
        "write `unit: deg` at joint_position in the adapter's `state` and at the joints in its `actions`",
    ),
    BOTH_RAD: (
        "degrees_for_radians",
        "with joint positions in radians, as the model is given them and as it answers them",
        "correct `unit` at joint_position in the adapter's `state` and at the joints in its `actions`",
    ),
    AS_LEROBOT: (
        "degrees_for_radians",
        "with degrees and percent of open both ways, as LeRobot's followers write them",
        "give the model an adapter as preset lerobot_so101 is (docs/bring_your_own.md)",
    ),
    STATE_GRIPPER: (
        "gripper_upside_down",
        "with open and closed exchanged in the gripper's width that the model is given",
        "correct `gripper` in the adapter's `state`",
    ),
}


def _what_ifs(trial: ModelTrial, now: float) -> Iterator[tuple[float, Suspicion]]:
    """(error then, words): inputs under another convention."""
    for name, then in trial.what_ifs.items():
        if name.startswith(CAMERAS):
            one, other = name.removeprefix(CAMERAS).split()
            cause, words = "cameras_swapped", f"with the pictures of {one} and {other} exchanged"
            do = "correct `camera` in the adapter's `cameras`"
        elif name.startswith(WRITTEN):
            written = Written(*name.removeprefix(WRITTEN).split())
            cause = cause_of(written)
            words = (
                f"with the gripper's width given as {shown(written.meant)} instead of {shown(written.said)}"
            )
            do = f"write `gripper: {written.meant}` at gripper_width in the adapter's `state`"
        else:
            cause, words, do = WHAT_IFS[name]
        said = f"moves differ from the recorded ones by {now:.0%}, and by {then:.0%} {words}"
        yield then, Suspicion(cause, said, do)


def _rate(trial: ModelTrial, now: float) -> Iterator[tuple[float, Suspicion]]:
    """(error then, words): played faster or slower."""
    path = next((one.path for one in trial.answered if one.path is not None), None)
    if not trial.step_known or path is None:
        return
    errors = {slower: unlike(trial.answered, slower) for slower in RATES}
    known = [(error, slower) for slower, error in errors.items() if error is not None]
    if not known:
        return
    then, slower = min(known)
    if not ABOUT_RIGHT[0] < slower < ABOUT_RIGHT[1]:
        times, how = (slower, "fast") if slower > 1 else (1 / slower, "slow")
        row_ms = path.step_s * 1000
        said = (
            f"moves are {times:.1f} times as {how} as recorded: a row is {row_ms:.0f} ms, and"
            f" {row_ms * slower:.0f} ms would fit (they differ by {now:.0%}, and by {then:.0%} then)"
        )
        do = "correct `step_s` in the adapter's `actions`, or in what the model answers"
        yield then, Suspicion("action_rate", said, do)


def _places(trial: ModelTrial) -> Iterator[Suspicion]:
    """Where the actions go, whatever was recorded."""
    if any(one.unreachable for one in trial.answered):
        yield _unreachable(trial)
    paths = _paths(trial)
    if not paths:
        return
    if trial.limits_rad is not None:
        low, high = trial.limits_rad
        beyond = 0.0
        for one in paths:
            assert one.path is not None
            joints = one.path.rows[:, : len(low)]
            beyond = max(beyond, float(np.maximum(low - joints, joints - high).max()))
        rows = np.concatenate([one.path.rows[:, : len(low)] for one in paths if one.path is not None])
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
    far, now = _first_rad(paths), unlike(trial.answered)
    if far > FAR_RAD and (now is None or now >= GOOD):  # a single row may be far, and right
        yield Suspicion(
            "far_away",
            f"the first action is {far:.2f} rad from where the robot is, as a mean over its joints",
            "compare `mode` (absolute, delta), order and signs of the joints in the adapter's `actions`",
        )


def _unlike(trial: ModelTrial) -> Iterator[Suspicion]:
    now = unlike(trial.answered)
    if now is not None and now >= 1.0:
        yield Suspicion(
            "unlike_recorded",
            f"moves differ from the recorded ones by {now:.0%} of what was moved: to stand still would be as good",
            "no single convention explains it: is the model trained for this task, camera view and robot?",
        )
