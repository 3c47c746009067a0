"""A simulation that is over is freed before the next one, and what was there before is never searched."""

from __future__ import annotations

import gc
import weakref

import pytest

from rosa_sim.garbage import OBJECTS, searched_seldom


class Knot:
    """Its only owner is itself."""

    def __init__(self) -> None:
        self.own = self


@pytest.mark.slow
def test_the_simulation_before_is_freed_and_what_is_frozen_stays_frozen() -> None:
    with searched_seldom():
        assert gc.get_threshold()[0] == OBJECTS
        knot = weakref.ref(Knot())
    frozen = gc.get_freeze_count()
    assert frozen > 1000
    with searched_seldom():
        assert knot() is None
    assert gc.get_freeze_count() == pytest.approx(frozen, rel=0.01), "a few of them may have ended"


def test_the_usual_search_comes_back_after_an_error() -> None:
    usual = gc.get_threshold()
    with pytest.raises(KeyError), searched_seldom():
        raise KeyError
    assert gc.get_threshold() == usual
