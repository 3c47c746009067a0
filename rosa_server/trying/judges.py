"""What looks wrong between a model and a robot, from what the model was asked and answered. Pure.

A wrong convention rarely fails: the arm just moves wrongly. So each judge asks what the answers would be like under
another convention, and speaks up where that one fits what was recorded, or the robot, and the present one does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rosa_server.trying.steps import GRIPPER, Answered, Array, ModelTrial, unlike

CAUSES: Mapping[str, str] = {
    "not_finite": "an answer has numbers that are none",
    "wrong_columns": "actions have another number of columns than the robot has joints and gripper",
    "no_actions": "an action model answered no actions",
    "camera_twice": "two of the model's cameras show the very same picture",
    "camera_ignored": "answers do not depend on a camera",
    "constant_answer": "answers do not depend on what the model is shown",
    "colours_swapped": "answers fit the recording when red and blue change places",
    "cameras_swapped": "answers fit the recording when two cameras change places",
    "degrees_for_radians": "numbers fit when they are taken as degrees instead of radians, or the other way",
    "gripper_upside_down": "the gripper's orders fit when open and closed change places",
    "gripper_still": "the gripper was opened and closed in the recording, and the answers leave it where it is",
    "action_rate": "answers fit the recording when they are played faster or slower",
    "out_of_limits": "actions are beyond the robot's joint limits",
    "far_away": "actions begin far from where the robot is",
    "unlike_recorded": "answers are no better than to stand still",
}
DEG = 180 / np.pi
GOOD = 0.3  # of `unlike`: below it nothing is suspected
BETTER = 0.6  # another convention is named when the error falls to this share
FAR_RAD = 0.35  # from where the robot is to the first action: further than an arm gets in one step
RATES = (0.2, 0.25, 1 / 3, 0.4, 0.5, 2 / 3, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
ABOUT_RIGHT = (0.6, 1.7)  # how much slower a chunk may be than the recording: a busy server makes robots wait

# Names of what-ifs; `what_ifs.py` makes the inputs.
COLOURS, STATE_DEG, STATE_RAD, STATE_GRIPPER = (
    "colours",
    "state_in_degrees",
    "state_in_radians",
    "state_gripper",
)
CAMERAS = "cameras "  # followed by the two names


@dataclass(frozen=True)
class Suspicion:
    """One thing that looks wrong."""

    cause: str  # of `CAUSES`
    found: str  # what was measured and what it means
    do: str  # what to do

    def __post_init__(self) -> None:
        if self.cause not in CAUSES:
            raise ValueError(f"no cause {self.cause!r}")

    def line(self) -> str:
        return f"{self.cause}: {self.found}; {self.do}"


def judge(trial: ModelTrial) -> list[Suspicion]:
    """Everything that looks wrong; the best explanation only where several would explain the same."""
    if first := [*_shapes(trial)]:
        return first
    found = [*_twice(trial), *_deaf(trial)]
    explained = _explained(trial)
    found += [*explained, *_gripper(trial)]
    if not explained:
        found += [*_places(trial)]
    if not found:
        found += [*_unlike(trial)]
    return found


def _explained(trial: ModelTrial) -> list[Suspicion]:
    """The one other convention that fits best, if any does."""
    now = unlike(trial.answered)
    if now is None:
        return [*_units_alone(trial)]
    if now < GOOD:
        return []
    others = [*_units(trial, now), *_what_ifs(trial, now), *_rate(trial, now)]
    # Any model is better off standing still (error 1) than moving 57 times too far: that alone proves nothing.
    fitting = [one for one in others if one[0] < BETTER * min(now, 1.0)]
    return [min(fitting, key=lambda one: one[0])[1]] if fitting else [*_units_alone(trial)]


def _paths(trial: ModelTrial) -> list[Answered]:
    return [one for one in trial.answered if one.path is not None and one.step.here is not None]


def _shapes(trial: ModelTrial) -> Iterator[Suspicion]:
    for one in trial.answered:
        for name, values in one.output.arrays.items():
            if not np.isfinite(np.asarray(values, np.float64)).all():
                yield Suspicion(
                    "not_finite",
                    f"{name} has numbers that are not finite",
                    "look for a division by a standard deviation of 0, or weights of another format",
                )
                return
        if trial.component == "system1" and one.output.arrays.get("actions") is None:
            got = ", ".join(one.output.arrays) or "no arrays"
            yield Suspicion(
                "no_actions",
                f"it answered {got}",
                "an action model answers `actions`; an adapter makes them of other arrays",
            )
            return
    for one in _paths(trial):
        here, path = one.step.here, one.path
        assert here is not None and path is not None
        if path.rows.shape[1] != len(here):
            yield Suspicion(
                "wrong_columns",
                f"actions have {path.rows.shape[1]} columns, the robot has {len(here)}: {one.step.joint_count} joints"
                + (" and a gripper" if GRIPPER in one.step.state else ""),
                "say in the adapter's `actions` what each column is",
            )
            return


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
                    "map each of the model's cameras to a camera of its own",
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


def _gripper(trial: ModelTrial) -> Iterator[Suspicion]:
    """Ordered widths against recorded ones."""
    told, done = [], []
    for one in _paths(trial):
        recorded, path = one.step.recorded, one.path
        if recorded is None or path is None or GRIPPER not in one.step.state:
            continue
        if recorded.rows.shape[1] != path.rows.shape[1]:
            continue
        times_s = np.linspace(0, min(recorded.times_s[-1], path.times_s[-1]), POINTS_OF_GRIPPER)
        told.append(path.at(times_s)[:, -1])
        done.append(recorded.at(times_s)[:, -1])
    if not told:
        return
    ordered, had = np.concatenate(told), np.concatenate(done)
    closed, opened = trial.gripper_m or (min(0.0, had.min()), max(had.max(), ordered.max()))
    span = opened - closed
    if span <= 0:
        return
    off = float(np.abs(ordered - had).mean()) / span
    turned = float(np.abs(closed + opened - ordered - had).mean()) / span
    do = "correct `gripper` of the part `to: gripper` in the adapter's `actions`"
    against = float(np.corrcoef(ordered, had)[0, 1]) if ordered.std() > 0 and had.std() > 0 else 0.0
    if against < AGAINST or (off > GOOD and turned < BETTER * off and turned < GOOD):
        words = f"{off:.0%} of the gripper's range, and by {turned:.0%} with open and closed exchanged"
        yield Suspicion("gripper_upside_down", f"ordered widths differ from the recorded ones by {words}", do)
    elif np.ptp(had) > SPAN * span and np.ptp(ordered) < STILL * span:
        words = f"widths were {had.min():.3f} to {had.max():.3f} m, the answers order {ordered.min():.3f} to"
        yield Suspicion("gripper_still", f"{words} {ordered.max():.3f} m", do)


POINTS_OF_GRIPPER = 5
AGAINST = -0.5  # correlation of ordered and recorded widths
SPAN, STILL = 0.5, 0.15  # of the range: it was moved, and it is not


def _places(trial: ModelTrial) -> Iterator[Suspicion]:
    """Where the actions go, whatever was recorded."""
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
        if beyond > 0.01:
            yield Suspicion(
                "out_of_limits",
                f"actions are up to {beyond:.2f} rad beyond the joint limits of the robot file",
                "compare the order of the joints, their signs and zeros with those that the model was trained on",
            )
            return
    far = _first_rad(paths)
    if far > FAR_RAD:
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
