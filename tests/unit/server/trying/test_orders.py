"""Joints that a model means in another order, or the other way round, are named; so are two mistakes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput
from rosa_server.trying.asker import TrialAsker
from rosa_server.trying.judges import judge
from rosa_server.trying.steps import Path, TrialStep
from rosa_server.trying.suspicion import Suspicion
from rosa_server.trying.trial import TriedRobot, try_model
from tests.unit.server.trying.test_try import PERIOD_S, causes
from tests.unit.server.trying.toy import HORIZON, STEP_S, ToyPolicy, red_at, world

JOINTS = ("pan", "lift", "elbow", "wrist")
BODY = TriedRobot((np.full(4, -3.0), np.full(4, 3.0)), joints=JOINTS, arms=(slice(0, 2), slice(2, 4)))
HOME = np.array([0.0, -1.2, 1.0, 0.5])  # joints of an arm are about places of their own


def goal(images: Any) -> np.ndarray[Any, Any]:
    """Where four joints go: to what is red, and to what is blue, in either picture."""
    seen = [images[name] for name in ("front", "wrist")]
    return HOME + np.array([red_at(one[..., ::step]) for step in (1, -1) for one in seen])


class FourJoints(ToyPolicy):
    """Goes there. It was trained with its joints in the order `columns`, counted as `signs` say."""

    def __init__(
        self,
        columns: Sequence[int] = (0, 1, 2, 3),
        signs: Sequence[int] = (1, 1, 1, 1),
        given: bool = True,
        ordered: bool = True,
    ) -> None:
        super().__init__()
        self.input_spec = InputSpec(self.input_spec.images, {"joint_position": 4})
        self._columns, self._signs = list(columns), np.array(signs)
        self._given, self._ordered = given, ordered

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        return [ModelOutput({"actions": self._rows(one)}) for one in batch]

    def _rows(self, one: ModelInput) -> np.ndarray[Any, Any]:
        here = np.array(one.state["joint_position"], np.float64)
        if self._given:
            meant = np.empty(4)
            meant[self._columns] = here * self._signs
            here = meant
        rows = here + (goal(one.images) - here) * np.linspace(0, 1, HORIZON)[:, None]
        return (rows[:, self._columns] * self._signs if self._ordered else rows).astype(np.float32)


def four() -> list[TrialStep]:
    """What a robot with four joints saw and did."""
    steps, random = [], np.random.default_rng(5)
    for step in world():
        here = HOME + random.uniform(-0.7, 0.7, 4)
        rows = here + (goal(step.images) - here) * np.linspace(0, 1, HORIZON)[:, None]
        recorded = Path(rows + random.normal(0, 0.005, rows.shape), STEP_S)
        state = {"joint_position": here.astype(np.float32)}
        steps.append(replace(step, state=state, recorded=recorded))
    return steps


def found(backend: Any, steps: list[TrialStep]) -> list[Suspicion]:
    return judge(try_model(TrialAsker(backend, "system1", PERIOD_S), steps, BODY))


def test_the_right_order_names_nothing() -> None:
    assert found(FourJoints(), four()) == []


SIDES = [(True, True), (True, False), (False, True)]


@pytest.mark.parametrize("sides", SIDES, ids=["both", "state", "actions"])
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((1, 0, 2, 3), "lift in the place of pan, pan in the place of lift"),
        ((3, 2, 1, 0), "wrist in the place of pan"),
        ((2, 3, 0, 1), "elbow in the place of pan, wrist in the place of lift"),
    ],
    ids=["two", "reversed", "arms"],
)
def test_exchanged_joints_and_arms_are_named_with_the_side(
    columns: tuple[int, ...], said: str, sides: tuple[bool, bool]
) -> None:
    given, ordered = sides
    [one] = found(FourJoints(columns, given=given, ordered=ordered), four())
    assert one.cause == "joints_swapped" and said in one.found
    assert ("what the model is given" in one.found, "what it answers" in one.found) == sides
    assert ("`state`" in one.do, "`actions`" in one.do) == sides


def test_answers_in_any_other_order_are_named() -> None:
    [one] = found(FourJoints((1, 2, 3, 0), given=False), four())
    assert one.cause == "joints_swapped"
    assert "lift in the place of pan, elbow in the place of lift" in one.found


@pytest.mark.parametrize("sides", SIDES, ids=["both", "state", "actions"])
def test_a_joint_that_counts_the_other_way_is_named(sides: tuple[bool, bool]) -> None:
    given, ordered = sides
    [one] = found(FourJoints(signs=(1, -1, 1, 1), given=given, ordered=ordered), four())
    assert one.cause == "joint_reversed" and "lift counts the other way" in one.found
    assert ("`state`" in one.do, "`actions`" in one.do) == sides


def test_a_model_that_does_something_else_is_called_so_and_nothing_is_made_up() -> None:
    """Of all that was tried something fits best; that is no reason to name it."""

    class Elsewhere(FourJoints):
        def _rows(self, one: ModelInput) -> np.ndarray[Any, Any]:
            here = np.asarray(one.state["joint_position"], np.float64)
            random = np.random.default_rng(int(sum(picture.sum() for picture in one.images.values())))
            return (here + random.normal(0, 0.4, 4) * np.linspace(0, 2, HORIZON)[:, None]).astype(np.float32)

    assert [one.cause for one in found(Elsewhere(), four())] == ["unlike_recorded"]


def _bgr(step: TrialStep) -> TrialStep:
    return replace(step, images={name: one[..., ::-1].copy() for name, one in step.images.items()})


def _upside_down(step: TrialStep) -> TrialStep:
    return replace(step, images={name: one[::-1, ::-1].copy() for name, one in step.images.items()})


def test_a_camera_that_is_upside_down_is_named() -> None:
    assert causes(ToyPolicy(), [_upside_down(step) for step in world()]) == ["camera_upside_down"]
    front = [
        replace(one, images={**one.images, "front": _upside_down(one).images["front"]}) for one in world()
    ]
    [one] = judge(try_model(TrialAsker(ToyPolicy(), "system1", PERIOD_S), front, TriedRobot()))
    assert one.cause == "camera_upside_down" and "pictures of front turned" in one.found


class DegreesIn(ToyPolicy):
    """Somebody gives it degrees as radians; it answers in radians, or in degrees as well."""

    def __init__(self, out: bool = False) -> None:
        super().__init__(deg=out)

    def infer(self, batch: Any) -> list[ModelOutput]:
        name = "joint_position"
        return super().infer(
            [replace(one, state={**one.state, name: np.degrees(one.state[name])}) for one in batch]
        )


@pytest.mark.parametrize(
    ("policy", "change", "wanted"),
    [
        (ToyPolicy(deg=True), _bgr, {"colours_swapped", "degrees_for_radians"}),
        (DegreesIn(), _bgr, {"colours_swapped", "degrees_for_radians"}),
        (DegreesIn(), _upside_down, {"camera_upside_down", "degrees_for_radians"}),
        (ToyPolicy(), lambda step: _bgr(_upside_down(step)), {"colours_swapped", "camera_upside_down"}),
    ],
    ids=["BGR and actions", "BGR and state", "upside down and state", "BGR upside down"],
)
def test_two_mistakes_at_once_are_both_named(
    policy: ToyPolicy, change: Callable[[TrialStep], TrialStep], wanted: set[str]
) -> None:
    assert set(causes(policy, [change(step) for step in world()])) == wanted


@pytest.mark.parametrize("change", [_bgr, _upside_down])
def test_a_wrong_picture_at_a_wrong_rate_is_both_named(change: Callable[[TrialStep], TrialStep]) -> None:
    steps = [change(step) for step in world()]
    [one, other] = judge(try_model(TrialAsker(ToyPolicy(), "system1", PERIOD_S * 3), steps, TriedRobot()))
    assert {one.cause, other.cause} > {"action_rate"}
