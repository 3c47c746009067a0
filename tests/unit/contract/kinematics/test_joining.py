"""The next chunk joins the one that plays: what is frozen stays, what follows is pulled to it and then let go."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rosa_contract.kinematics.joining import blended, soft_mask
from rosa_contract.wire.overlap import Overlap
from rosa_server.models.inpainting import Guide, guided


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30))
def test_the_mask_is_one_where_it_is_frozen_falls_and_is_zero_after_the_overlap(
    frozen: int, overlap: int, horizon: int
) -> None:
    frozen = min(frozen, overlap)
    weights = soft_mask(frozen, overlap, horizon)
    assert weights.shape == (horizon,)
    assert (weights[:frozen] == 1).all()
    assert (np.diff(weights) <= 1e-12).all()
    assert (weights[overlap:] == 0).all()
    assert (weights[frozen:overlap] < 1).all()


def test_the_mask_is_that_of_the_paper() -> None:
    share = (10 - 5) / (10 - 3 + 1)  # equation 5, with d = 3 and an overlap of 10
    assert soft_mask(3, 10, 16)[5] == pytest.approx(share * (np.e**share - 1) / (np.e - 1))


def test_a_blended_chunk_begins_as_the_one_that_plays_and_ends_as_it_was() -> None:
    rng = np.random.default_rng(0)
    chunk = rng.normal(size=(16, 8)).astype(np.float32)
    overlap = Overlap(rng.normal(size=(10, 8)).astype(np.float32), 3, 0.05)
    joined = blended(chunk, overlap)
    assert np.array_equal(joined[:3], overlap.actions[:3])
    assert np.array_equal(joined[10:], chunk[10:])
    assert np.array_equal(joined[3:, 7], chunk[3:, 7]), "a gripper is open or closed, nothing between"
    between = (joined[3:10, :7] - chunk[3:10, :7]) / (overlap.actions[3:10, :7] - chunk[3:10, :7])
    assert ((between > 0) & (between < 1)).all()


@pytest.mark.parametrize("rows", [1, 16, 40])
def test_an_overlap_may_be_shorter_or_longer_than_the_chunk(rows: int) -> None:
    chunk, overlap = (
        np.zeros((16, 8), np.float32),
        Overlap(np.ones((rows, 8), np.float32), min(rows, 20), 0.05),
    )
    joined = blended(chunk, overlap)
    assert joined.shape == (16, 8)
    assert (joined[: min(rows, 16)] == 1).all()


def test_an_overlap_of_another_robot_is_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        blended(np.zeros((16, 8), np.float32), Overlap(np.ones((3, 7), np.float32), 1, 0.05))


def straight(begin: torch.Tensor) -> torch.Tensor:
    """Ten Euler steps of a field that leaves every chunk where it is, bent to begin with ones."""
    target = torch.ones_like(begin)
    weights = torch.zeros_like(begin)
    weights[:, :3] = 1
    chunk = begin
    for step in range(10):
        time = torch.full((len(chunk),), step / 10)
        chunk = (
            chunk + guided(lambda at, _: torch.zeros_like(at) * at, chunk, time, Guide(target, weights)) / 10
        )
    return chunk


def test_guidance_moves_what_has_weight_and_nothing_else() -> None:
    begin = torch.full((2, 6), -1.0)
    end = straight(begin)
    assert (end[:, :3] > 0.8).all()
    assert torch.equal(end[:, 3:], begin[:, 3:])


def test_guidance_follows_the_equations_of_the_paper() -> None:
    chunk, time = torch.tensor([[0.5]]), torch.tensor([0.4])
    guide = Guide(torch.tensor([[2.0]]), torch.tensor([[0.7]]))
    bent = guided(lambda at, _: 3.0 * at, chunk, time, guide)
    ends, slope = 0.5 + 0.6 * 1.5, 1 + 0.6 * 3.0
    spread = 0.6**2 / (0.4**2 + 0.6**2)
    strength = min(5.0, 0.6 / (0.4 * spread))
    assert float(bent) == pytest.approx(1.5 + strength * 0.7 * (2.0 - ends) * slope, rel=1e-5)
