"""Batches get smaller while too many calls are late, and try to grow again ever more seldom."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rosa_server.serving.core.shrinking import ALLOWED, CALM_WINDOWS, Shrinking


def settled(shrinking: Shrinking, *late: float) -> list[int]:
    found = []
    for share in late:
        shrinking.settle(share, 10)
        found.append(shrinking.less)
    return found


def test_one_slow_batch_is_chance_and_several_are_not() -> None:
    assert settled(Shrinking(), 0.06, 0.0, 0.0, 0.0) == [0, 0, 0, 0]
    assert settled(Shrinking(), 0.06, 0.06, 0.0) == [0, 1, 1]


@pytest.mark.parametrize(("late", "windows"), [(0.02, 8), (0.03, 5), (0.2, 1)])
def test_the_more_calls_are_late_the_sooner_batches_get_smaller(late: float, windows: int) -> None:
    found = settled(Shrinking(), *[late] * windows)
    assert found == [0] * (windows - 1) + [1]


def test_what_is_allowed_for_makes_no_batch_smaller() -> None:
    assert settled(Shrinking(), *[ALLOWED] * 1000)[-1] == 0


def test_no_more_than_there_is() -> None:
    shrinking = Shrinking()
    for _ in range(5):
        shrinking.settle(1.0, 2)
    assert shrinking.less == 2
    shrinking = Shrinking()
    shrinking.settle(1.0, 0)
    assert shrinking.less == 0


def test_batches_grow_again_when_calm_and_what_was_too_much_is_tried_ever_more_seldom() -> None:
    shrinking, grown = Shrinking(), []
    for window in range(500):  # one less is enough
        shrinking.settle(0.0 if shrinking.less else 0.2, 10)
        if not shrinking.less:
            grown.append(window)
    gaps = [later - earlier for earlier, later in pairwise(grown)]
    assert grown[0] == CALM_WINDOWS
    assert gaps[:4] == [times * CALM_WINDOWS + 1 for times in (2, 4, 8, 16)]
    assert gaps[4] == gaps[3], "but never for good"
