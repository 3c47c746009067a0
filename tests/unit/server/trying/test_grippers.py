"""A gripper that is written in another way than the adapter says is named with the way that fits."""

from __future__ import annotations

import pytest

from rosa_contract.config.adapter import Adapter
from rosa_contract.config.conventions import GRIPPERS
from rosa_contract.config.strict import Reader
from rosa_server.models.adapters import behind
from rosa_server.models.adapters.resolving import resolve
from rosa_server.models.backend import Backend
from rosa_server.trying.asker import TrialAsker
from rosa_server.trying.judges import judge
from rosa_server.trying.trial import try_model
from tests.unit.server.trying.test_try import BODY, PERIOD_S, adapter, causes
from tests.unit.server.trying.toy import GraspingPolicy, ToyPolicy, grasped, world


def test_a_gripper_upside_down_is_named() -> None:
    assert causes(ToyPolicy(closed=True), world()) == ["gripper_upside_down"]


def _behind(model: str, state: str, orders: str) -> Backend:
    """A policy that writes grippers as `model`, behind an adapter that says otherwise."""
    told = adapter(
        state={
            "joint_position": [{"of": "joint_position", "take": [0, 1]}],
            "gripper_width": [{"of": "gripper_width", "gripper": state}],
        }
    )
    told["actions"]["parts"][1]["gripper"] = orders
    reader = Reader("adapter")
    spec = reader.section(Adapter, "", told)
    reader.finish()
    made = behind(GraspingPolicy(model), resolve(spec).to_data())
    made.load()
    return made


CONVENTIONS = sorted(set(GRIPPERS) - {"finger_pair"})


@pytest.mark.parametrize("written", CONVENTIONS)
def test_a_gripper_that_is_written_as_the_adapter_says_names_nothing(written: str) -> None:
    assert causes(_behind(written, written, written), grasped()) == []


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (model, said)
        for model in CONVENTIONS
        for said in CONVENTIONS
        if ("closed" in model) != ("closed" in said)
    ],
)
def test_a_gripper_upside_down_is_named_whatever_its_unit(model: str, said: str) -> None:
    """Of the state and of the orders, each alone: by the cause, and by what to write instead."""
    for state, orders in ((said, model), (model, said)):
        found = judge(
            try_model(TrialAsker(_behind(model, state, orders), "system1", PERIOD_S), grasped(), BODY)
        )
        assert [one.cause for one in found] == ["gripper_upside_down"], (state, orders, found)


def test_a_gripper_in_another_range_is_named_with_the_one_that_fits() -> None:
    for model, state, orders, where in (
        ("open_percent", "open_fraction", "open_percent", "`state`"),
        ("open_fraction", "open_fraction", "open_percent", "`actions`"),
    ):
        backend = _behind(model, state, orders)
        found = judge(try_model(TrialAsker(backend, "system1", PERIOD_S), grasped(), BODY))
        assert [one.cause for one in found] == ["gripper_unit"], (state, orders, found)
        assert f"`gripper: {model}`" in found[0].do and where in found[0].do


def test_a_gripper_that_no_adapter_translates_is_named_with_what_the_model_means() -> None:
    found = judge(try_model(TrialAsker(GraspingPolicy(), "system1", PERIOD_S), grasped(), BODY))
    assert {one.cause for one in found} == {"gripper_upside_down"}
    assert all("`gripper: closed_percent`" in one.do for one in found)
