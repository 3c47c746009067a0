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


@pytest.mark.parametrize("file", ["panda.yaml", "fr3.yaml", "so101.yaml", "bimanual_ur5e.yaml"])
def test_a_shape_is_read_as_it_was_told(file: str) -> None:
    spec = load_robot(ROBOTS / file)
    drawn = read_shape(shape_text(spec), "told")
    for arm, limb in zip(drawn, spec.limbs, strict=True):
        assert limb.chain is not None and limb.workspace is not None and arm.chain is not None
        home = np.array(spec.home_rad)[arm.joints]
        assert np.array_equal(arm.chain.tool(home), Chain(limb.chain).tool(home))
        assert arm.zone == (limb.workspace.min_m, limb.workspace.max_m)


def test_a_robot_without_link_lengths_has_no_path_and_no_zone() -> None:
    spec = replace(load_robot(ROBOTS / "panda.yaml"), chain=None, workspace=None)
    (arm,) = read_shape(shape_text(spec), "told")
    assert (arm.chain, arm.zone) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "arms: [{joints: 1, chain: {a_m: [0, 0], d_m: [0], alpha_rad: [0, 0]}}]",
        "arms: [{joints: 1000000000, chain: {}}]",
        "arms: [{joints: 2, chain: {a_m: [0, 0], d_m: [0, 0], alpha_rad: [0, 0]}}]",
        "arms: [{joints: 1, chain: {a_m: [], d_m: [], alpha_rad: []}}]",
        "arms: [{joints: 1, chain: {a_m: [.nan, 0], d_m: [0, 0], alpha_rad: [0, 0]}}]",
        "arms: [{joints: 1, workspace: {min_m: [0, 0], max_m: [1, 1]}}]",
        "legs: 4",
        "- 1",
        "{",
        "x" * (MAX_CHARS + 1),
    ],
)
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_shape(text, "told")
