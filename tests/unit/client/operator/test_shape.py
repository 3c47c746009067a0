"""A robot tells its shape, and whoever draws it gets the same chain and workspace back, or a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rosa_client.operator.shape import MAX_CHARS, read_shape, shape_text
from rosa_contract.config.robot import load_robot
from rosa_contract.errors import ConfigError
from rosa_contract.kinematics.chain import Chain

ROBOTS = Path(__file__).parents[4] / "configs" / "robots"


@pytest.mark.parametrize("file", ["panda.yaml", "fr3.yaml"])
def test_a_shape_is_read_as_it_was_told(file: str) -> None:
    spec = load_robot(ROBOTS / file)
    chain, zone = read_shape(shape_text(spec), "told")
    assert spec.chain is not None and spec.workspace is not None and chain is not None
    assert np.array_equal(chain.tool(spec.home_rad), Chain(spec.chain).tool(spec.home_rad))
    assert zone == (spec.workspace.min_m, spec.workspace.max_m)


def test_a_robot_without_link_lengths_has_no_path_and_no_zone() -> None:
    spec = replace(load_robot(ROBOTS / "panda.yaml"), chain=None, workspace=None)
    assert read_shape(shape_text(spec), "told") == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "chain: {a_m: [0, 0], d_m: [0], alpha_rad: [0, 0]}",
        "chain: {a_m: [], d_m: [], alpha_rad: []}",
        "chain: {a_m: [.nan, 0], d_m: [0, 0], alpha_rad: [0, 0]}",
        "workspace: {min_m: [0, 0], max_m: [1, 1]}",
        "legs: 4",
        "- 1",
        "{",
        "x" * (MAX_CHARS + 1),
    ],
)
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_shape(text, "told")
