"""A client's observation becomes that of the task's robot, and the model's actions come back in the client's terms."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from openpi_client import image_tools

from rosa_contract.config.adapter import EXACT, PAD, STRETCH
from rosa_contract.config.frontends import (
    PRESETS,
    ActionPart,
    Frontend,
    ImageSource,
    StatePart,
    frontend_problems,
)
from rosa_server.frontends.mapping import ClientMapping, MappingError, client_columns, picture

SPEC = Frontend(
    "openpi",
    "pick",
    images={"front": ImageSource("image", 4, 6)},
    state={
        "joint_position": (StatePart("state", (2, 0), unit="deg"), StatePart("more", count=1)),
        "gripper_width": (StatePart("state", (3,), gripper="closed_sign", open_m=0.08),),
    },
    actions={
        "actions": (ActionPart((0, 1), unit="deg"), ActionPart((2,), gripper="closed_sign", open_m=0.08))
    },
    ignore=("depth",),
)
IMAGE = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)


def sent(**changes: Any) -> dict[str, Any]:
    state = np.array([90.0, 0.0, 180.0, 0.0])
    whole = {"image": IMAGE, "state": state, "more": 0.5, "prompt": "go", **changes}
    return {key: value for key, value in whole.items() if value is not None}


def test_parts_are_joined_in_order_in_the_robots_units() -> None:
    seen, prompt = ClientMapping(SPEC).observation(sent(depth=b"", prompt="go"))
    assert prompt == "go" and np.array_equal(seen["front"], IMAGE)
    assert seen["joint_position"] == pytest.approx([np.pi, np.pi / 2, 0.5])
    assert seen["gripper_width"] == pytest.approx([0.04]) and seen["gripper_width"].dtype == np.float32


def test_an_instruction_may_come_alone_in_a_list_or_from_the_file() -> None:
    assert ClientMapping(SPEC).observation(sent(prompt=["go"]))[1] == "go"
    assert ClientMapping(replace(SPEC, prompt="do it")).observation(sent(prompt=None))[1] == "do it"


def test_everything_unmapped_is_in_one_error() -> None:
    with pytest.raises(MappingError) as error:
        ClientMapping(SPEC).observation({"state": np.zeros(4), "iamge": IMAGE, "tactile": 1})
    assert error.value.cause == "unmapped"
    assert str(error.value).startswith("the client does not send image, more; nothing takes iamge, tactile")


def test_every_value_of_another_form_is_in_one_error() -> None:
    wrong = {"image": IMAGE[:2], "state": np.zeros((2, 2)), "more": "x", "prompt": 7}
    with pytest.raises(MappingError) as error:
        ClientMapping(SPEC).observation(wrong)
    assert error.value.cause == "wrong_value"
    assert all(f"{key}: expected" in str(error.value) for key in wrong)
    with pytest.raises(MappingError) as error:
        ClientMapping(SPEC).observation({**wrong, "state": [[0.0], [0.0, 0.0]]})
    assert "state: expected" in str(error.value)


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((4, 6, 3), np.float32),
        np.zeros((3, 4, 6), np.uint8),
        b"abc",
        None,
        np.zeros((0, 6, 3), np.uint8),
    ],
)
def test_what_is_no_image_is_refused(value: Any) -> None:
    with pytest.raises(MappingError):
        picture(value, ImageSource("image", 8, 8, PAD))


def test_an_image_of_another_size_is_fitted_as_the_file_says() -> None:
    white = np.full((10, 20, 3), 255, np.uint8)
    padded = picture(white, ImageSource("image", 8, 8, PAD))
    assert (
        padded.shape == (8, 8, 3)
        and (padded[2:6] == 255).all()
        and not padded[:2].any()
        and not padded[6:].any()
    )
    assert (picture(white, ImageSource("image", 8, 8, STRETCH)) == 255).all()
    with pytest.raises(MappingError):
        picture(white, ImageSource("image", 8, 8, EXACT))


@pytest.mark.parametrize("size", [(480, 640), (640, 480), (224, 224), (180, 320), (100, 100)])
def test_padding_puts_the_picture_where_openpis_client_does(size: tuple[int, int]) -> None:
    rgb = np.full((*size, 3), 200, np.uint8)
    source = ImageSource("image", 224, 224, PAD)
    assert np.array_equal(picture(rgb, source), image_tools.resize_with_pad(rgb, 224, 224))


def test_actions_come_back_in_the_clients_units() -> None:
    rows = np.array([[np.pi, 0.0, 0.08], [0.0, np.pi / 2, 0.0]])
    actions = ClientMapping(SPEC).actions(rows, {})["actions"]
    assert (
        actions == pytest.approx(np.array([[180.0, 0.0, -1.0], [0.0, 90.0, 1.0]]))
        and actions.dtype == np.float32
    )


def test_differences_add_up_to_the_positions_again() -> None:
    rows = np.array([[0.1, 1.0], [0.3, 1.1], [0.2, 1.2]])
    part = ActionPart((0, 1), relative_to="q", scale=5.0)
    got = client_columns(rows, part, {"q": np.array([0.0, 0.9])})
    assert np.array([0.0, 0.9]) + np.cumsum(got / 5.0, axis=0) == pytest.approx(rows)


def test_too_few_columns_are_said() -> None:
    with pytest.raises(MappingError) as error:
        ClientMapping(SPEC).actions(np.zeros((3, 2)), {})
    assert error.value.cause == "wrong_actions"


def test_what_the_models_take_and_nothing_maps_is_listed_with_what_is_mapped_in_vain() -> None:
    needs = SimpleNamespace(images={"front": (4, 6), "wrist": (4, 6)}, state={"joint_position": 7})
    found = ClientMapping(SPEC).misfits({"policy": needs})
    assert len(found) == 3
    assert (
        "camera 'wrist'" in found[0]
        and "state 'joint_position' of 7" in found[1]
        and "gripper_width" in found[2]
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_fits_together(preset: str) -> None:
    spec = Frontend("openpi", "pick", preset=preset)
    assert list(frontend_problems(spec)) == []
    mapping = ClientMapping(spec)
    keys = {one.key: np.zeros((224, 224, 3), np.uint8) for one in mapping.spec.images.values()}
    keys |= {part.key: np.zeros(part.count) for parts in mapping.spec.state.values() for part in parts}
    seen, _ = mapping.observation(keys)
    hello = mapping.hello("r1")
    assert {name: len(seen[name]) for name in hello.state} == hello.state
    assert mapping.actions(np.zeros((4, 8)), seen)["actions"].shape[0] == 4
