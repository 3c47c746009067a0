"""Plans of factories drawn at random come true (`rosa bench fleet --random`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from rosa_sim.fleet.random_bench import JITTER, badness, judged, shown
from rosa_sim.fleet.random_factory import RandomFactory, random_factory, random_lab
from rosa_sim.fleet.scenario import RANDOM, TOGETHER
from tests.examples import examples


@pytest.mark.slow
@pytest.mark.parametrize("draw", [random_factory, random_lab])
def test_a_seed_is_a_factory(draw: Callable[[int], RandomFactory]) -> None:
    one, same, other = draw(4), draw(4), draw(5)
    assert one.document == same.document != other.document
    assert one.factory == same.factory


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("seed", [4, *range(100, 99 + examples(1, 20))])
def test_a_plan_comes_true_and_everything_is_in_time(seed: int) -> None:
    one = judged(seed, 8.0, partial(random_factory, max_robots=30, max_servers=9))
    json.dumps(one.plain())
    assert str(one.seed) in shown(one)
    if one.refused:
        pytest.skip(f"refused: {one.refused}")
    assert abs(one.error) <= 0.10 and badness(one) <= 0.10
    assert min(one.runs[start].meet for start in (RANDOM, TOGETHER)) >= 0.99
    assert one.runs[JITTER].meet >= 0.98
    assert not one.below_own_rates
    assert one.runs[RANDOM].hz <= 1.02 * one.limit_hz
