"""Which other convention would explain what was recorded: the units, cameras, orders and rates that a model might mean.
Pure. `searching.py` asks the model again under each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rosa_server.trying.gripper_judge import cause_of
from rosa_server.trying.grippers import Written, shown
from rosa_server.trying.steps import Answered, ModelTrial, unlike
from rosa_server.trying.suspicion import BETTER, GOOD, Suspicion

DEG = 180 / np.pi
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
AS_LEROBOT = "as_lerobot"
CAMERAS, UPSIDE_DOWN = "cameras ", "upside_down "  # followed by the names
WRITTEN = "state_gripper_as "  # followed by how the width is written to the model, and how it might be meant
# What may be otherwise in the answers as well; `AND` stands between several.
ACTIONS_IN = {"actions_in_degrees": 1 / DEG, "actions_in_radians": DEG}  # -> what they are multiplied by
RATE = "rate "  # followed by how many times as slow
AND = " + "


def explained(trial: ModelTrial) -> list[Suspicion]:
    """What explains the recording; where nothing does, or there is none, what the answers say by themselves."""
    found = explanation(trial)
    if found is not None:
        return found[1]
    now = unlike(trial.answered)
    return [*_units_alone(trial)] if now is None or now >= GOOD else []


def explanation(trial: ModelTrial) -> tuple[float, list[Suspicion]] | None:
    """(error then, what is wrong): the other convention that fits the recording best, if any does; two at once where
    these fit much better than one alone."""
    now = unlike(trial.answered)
    if now is None or now < GOOD:
        return None
    alone = [*_units(trial, now), *_what_ifs(trial, now), *_rate(trial, now), *_orders(trial, now)]
    # Any model is better off standing still (error 1) than moving 57 times too far: that alone proves nothing.
    lowest = min([1.0, now, *(then for then, _ in alone)])
    # Of many combinations one may fit by chance, so it has to fit well.
    together = [one for one in _together(trial, now) if one[0] < min(GOOD, BETTER * lowest)]
    if together:
        return _best(together)
    fitting = [(then, [one]) for then, one in alone if then < BETTER * min(now, 1.0)]
    return _best(fitting) if fitting else None


def _best(found: Sequence[tuple[float, list[Suspicion]]]) -> tuple[float, list[Suspicion]]:
    return min(found, key=lambda one: round(one[0], 3))


def paths(trial: ModelTrial) -> list[Answered]:
    """Answers that move an arm whose place is known."""
    return [one for one in trial.answered if one.path is not None and one.step.here is not None]


def placed(trial: ModelTrial) -> list[Answered]:
    """Those of them that can be compared with where the robot is."""
    return [one for one in paths(trial) if one.step.placed]


ACTIONS_DEG = "the actions are in degrees and taken as radians"
ACTIONS_RAD = "the actions are in radians and taken as degrees"
UNIT_OF_ACTIONS = "correct `unit` of the joints in the adapter's `actions`"
STEP_OF_ACTIONS = "correct `step_s` in the adapter's `actions`, or in what the model answers"


def _units_alone(trial: ModelTrial) -> Iterator[Suspicion]:
    """Joint positions that begin where the robot is, in the other unit."""
    found = placed(trial)
    if not found:
        return
    far = first_rad(found)
    for words, factor in ((ACTIONS_DEG, 1 / DEG), (ACTIONS_RAD, DEG)):
        near = first_rad(found, factor)
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


def first_rad(found: Sequence[Answered], factor: float = 1.0) -> float:
    """Mean distance of the first action's joints, times `factor`, from the robot's, rad; median over the answers."""
    distances = []
    for one in found:
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


ONE_UNIT = {  # of what the model is given and what it answers, together: one convention
    f"{STATE_DEG}{AND}actions_in_degrees": (
        "degrees_for_radians",
        "with joint positions in degrees, as the model is given them and as it answers them",
        "write `unit: deg` at joint_position in the adapter's `state` and at the joints in its `actions`",
    ),
    f"{STATE_RAD}{AND}actions_in_radians": (
        "degrees_for_radians",
        "with joint positions in radians, as the model is given them and as it answers them",
        "correct `unit` at joint_position in the adapter's `state` and at the joints in its `actions`",
    ),
}


def _what_ifs(trial: ModelTrial, now: float) -> Iterator[tuple[float, Suspicion]]:
    """(error then, words): inputs under another convention."""
    for name, then in trial.what_ifs.items():
        if AND not in name or name in ONE_UNIT:
            cause, words, do = ONE_UNIT[name] if name in ONE_UNIT else _what_if(name)
            yield then, Suspicion(cause, _said(now, then, words), do)


def _together(trial: ModelTrial, now: float) -> Iterator[tuple[float, list[Suspicion]]]:
    """(error then, one suspicion each): several conventions at once."""
    for name, then in trial.what_ifs.items():
        if AND not in name:
            continue
        parts = [_what_if(one) for one in name.split(AND)]
        said = _said(now, then, " and ".join(words for _, words, _ in parts))
        yield then, [Suspicion(cause, said, do) for cause, _, do in parts]


def _said(now: float, then: float, words: str) -> str:
    return f"moves differ from the recorded ones by {now:.0%}, and by {then:.0%} {words}"


def _what_if(name: str) -> tuple[str, str, str]:
    """Cause, words, and what to do."""
    if name.startswith(CAMERAS):
        one, other = name.removeprefix(CAMERAS).split()
        words = f"with the pictures of {one} and {other} exchanged"
        return "cameras_swapped", words, "correct `camera` in the adapter's `cameras`"
    if name.startswith(UPSIDE_DOWN):
        shown_by = name.removeprefix(UPSIDE_DOWN).replace(",", " and ")
        words = f"with the pictures of {shown_by} turned by 180 degrees"
        return "camera_upside_down", words, "correct `turn_deg` in the adapter's `cameras`"
    if name.startswith(WRITTEN):
        written = Written(*name.removeprefix(WRITTEN).split())
        words = f"with the gripper's width given as {shown(written.meant)} instead of {shown(written.said)}"
        do = f"write `gripper: {written.meant}` at gripper_width in the adapter's `state`"
        return cause_of(written), words, do
    if name.startswith(RATE):
        words = f"played {name.removeprefix(RATE)} times as slowly"
        return "action_rate", words, STEP_OF_ACTIONS
    if name in ACTIONS_IN:
        words = f"if {ACTIONS_DEG if ACTIONS_IN[name] < 1 else ACTIONS_RAD}"
        return "degrees_for_radians", words, UNIT_OF_ACTIONS
    return WHAT_IFS[name]


def _orders(trial: ModelTrial, now: float) -> Iterator[tuple[float, Suspicion]]:
    """(error then, words): joints in another order, or the other way round."""
    for order, then in trial.joint_orders.items():
        sides = [
            (order.given, "what the model is given", "joint_position in the adapter's `state`", "`take`"),
            (order.ordered, "what it answers", "the joints in its `actions`", "`joints`"),
        ]
        where = " and ".join(side for holds, side, _, _ in sides if holds)
        if order.moved:
            pairs = [
                f"{_joint(trial, joint)} in the place of {_joint(trial, place)}"
                for place, joint in enumerate(order.columns)
                if place != joint
            ]
            keys = " and ".join(f"{key} of {part}" for holds, _, part, key in sides if holds)
            words = f"with {', '.join(pairs)} in {where}"
            yield then, Suspicion("joints_swapped", _said(now, then, words), f"correct {keys}")
        else:
            turned = ", ".join(_joint(trial, joint) for joint in order.turned)
            keys = " and of ".join(part for holds, _, part, _ in sides if holds)
            words = f"if {turned} counts the other way in {where}"
            yield then, Suspicion("joint_reversed", _said(now, then, words), f"correct `signs` of {keys}")


def _joint(trial: ModelTrial, number: int) -> str:
    return trial.joint_names[number] if number < len(trial.joint_names) else f"joint {number}"


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
        yield then, Suspicion("action_rate", said, STEP_OF_ACTIONS)
