"""Pictures of another size, another order of colours, and those of the past."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract.config.adapter import BGR, CROP, EXACT, FITS, PAD, RGB, STRETCH
from rosa_server.models.adapters.pictures import GAP_S, History, fitted, prepared

WIDE = np.full((20, 40, 3), 200, np.uint8)
side = st.integers(1, 80)


@settings(max_examples=60)
@given(have=st.tuples(side, side), want=st.tuples(side, side), fit=st.sampled_from([STRETCH, PAD, CROP]))
def test_whatever_comes_the_model_gets_its_own_size(
    have: tuple[int, int], want: tuple[int, int], fit: str
) -> None:
    picture = np.full((*have, 3), 200, np.uint8)
    made = fitted(picture, *want, fit)
    assert made.shape == (*want, 3) and made.dtype == np.uint8
    if fit != PAD:
        assert (made == 200).all(), "nothing is black that was not"


def test_padding_keeps_the_shape_of_things_and_is_black_above_and_below() -> None:
    made = fitted(WIDE, 40, 40, PAD)
    assert (made[:10] == 0).all() and (made[10:30] == 200).all() and (made[30:] == 0).all()


def test_cropping_cuts_the_sides_and_stretching_cuts_nothing() -> None:
    left_dark = WIDE.copy()
    left_dark[:, :10] = 0
    assert (fitted(left_dark, 20, 20, CROP) == 200).all(), "the outer quarters are gone"
    assert (fitted(left_dark, 20, 20, STRETCH)[:, :5] == 0).all()


def test_an_exact_fit_refuses_another_size_with_both_sizes() -> None:
    with pytest.raises(ValueError, match=r"expected 32x16 px .*, got 40x20"):
        fitted(WIDE, 16, 32, EXACT)
    assert fitted(WIDE, 20, 40, EXACT) is WIDE


@pytest.mark.parametrize("fit", FITS)
def test_a_picture_of_the_right_size_stays_as_it_is(fit: str) -> None:
    picture = np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8)
    assert (prepared(picture, 8, 8, fit, 0, RGB) == picture).all()
    assert (prepared(picture, 8, 8, fit, 0, BGR) == picture[..., ::-1]).all()
    assert (prepared(picture, 8, 8, fit, 180, RGB) == picture[::-1, ::-1]).all()


def test_history_is_oldest_first_and_begins_with_the_first_picture_repeated() -> None:
    history, stream = History(), ("panda0", "front")
    pictures = [np.full((1, 1, 3), number, np.uint8) for number in range(5)]

    def seen(number: int, now_s: float, stream: tuple[str, str] = stream) -> list[int]:
        past = history.with_past(now_s, stream, pictures[number], pictures[number], 3)
        return [int(one[0, 0, 0]) for one in past]

    assert seen(0, 0.0) == [0, 0, 0]
    assert seen(1, 0.1) == [0, 0, 1]
    assert seen(1, 0.1) == [0, 0, 1], "a batch that is repeated adds nothing"
    assert seen(2, 0.2) == [0, 1, 2]
    assert seen(4, 0.2, ("panda1", "front")) == [4, 4, 4], "another robot has a past of its own"
    assert seen(3, 0.3) == [1, 2, 3]
    assert seen(4, 0.3 + GAP_S + 1) == [4, 4, 4], "after a pause it begins anew"


def test_history_keeps_its_own_copy() -> None:
    """The bytes of a picture are in memory that the next batch overwrites."""
    history, picture = History(), np.zeros((1, 1, 3), np.uint8)
    history.with_past(0.0, ("r", "c"), object(), picture, 2)
    picture[:] = 9
    past = history.with_past(0.1, ("r", "c"), object(), picture, 2)
    assert [int(one[0, 0, 0]) for one in past] == [0, 9]
