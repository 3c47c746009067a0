"""Pictures that lie side by side are one array without a copy; any others are copied, and never mixed up."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_server.models.stacking import stacked

SHAPE = (4, 6, 3)


def rows(count: int) -> np.ndarray:
    return np.arange(count * int(np.prod(SHAPE)), dtype=np.uint8).reshape(count, *SHAPE).copy()


def test_neighbours_are_a_part_of_their_array() -> None:
    whole = rows(5)
    batch = stacked([whole[1], whole[2], whole[3]])
    assert np.shares_memory(batch, whole)
    assert (batch == whole[1:4]).all()
    assert np.shares_memory(stacked([whole[4]]), whole), "one alone as well"


@pytest.mark.parametrize("order", [(1, 0), (0, 2), (0, 0), (2, 1, 0), (0, 1, 3)])
def test_what_does_not_lie_side_by_side_is_copied(order: tuple[int, ...]) -> None:
    whole = rows(5)
    batch = stacked([whole[number] for number in order])
    assert not np.shares_memory(batch, whole)
    assert (batch == whole[list(order)]).all()


def test_pictures_of_other_arrays_types_and_strides_are_copied() -> None:
    whole, other = rows(3), rows(3)
    shifted = whole.reshape(-1)[1 : 1 + int(np.prod(SHAPE))].reshape(SHAPE)
    upside_down = [whole[0], whole[1][::-1]]
    for batch in (
        [whole[0], other[1]],
        [whole[0], whole[1].copy()],
        [whole.copy()[0], whole[1]],
        [shifted, whole[1]],
        upside_down,
        [whole[0].view(np.int8), whole[1].view(np.int8)],
        [np.zeros(SHAPE, np.uint8), np.ones(SHAPE, np.uint8)],
    ):
        made = stacked(batch)
        assert not np.shares_memory(made, whole)
        assert (made == np.stack(batch)).all()


def test_different_shapes_are_refused() -> None:
    whole = rows(2)
    with pytest.raises(ValueError, match="same shape"):
        stacked([whole[0], whole[1][:2]])
