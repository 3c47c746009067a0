"""The shipped weights in unseen sorting cells: they act on the prompt, and tell a hand in the workcell from none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rosa_server.models.vla.backend import VlaBackend
from rosa_sim.cell.layout.hardware import SORT_PARTS
from rosa_sim.training.judge.episodes import Player
from rosa_sim.training.judge.evaluate_vla import KINDS
from rosa_sim.training.judge.trials import play_kind


@pytest.fixture(scope="module")
def model():
    backend = VlaBackend()
    backend.load()
    return backend


@pytest.fixture(scope="module")
def player(model):
    made = Player(model, {"monitor": model}, KINDS[0], SORT_PARTS)
    yield made
    made.close()


@pytest.mark.slow
def test_it_puts_the_named_block_into_the_named_bin(player):
    for seed in SOLVED:
        episode = player.play(seed)
        assert episode.outcome == "done", episode.why


@pytest.mark.slow
def test_asked_for_another_block_it_does_not_move_this_one(model):
    wrong = next(kind for kind in KINDS if kind.wrong_prompt)
    assert play_kind((model, {}), wrong, SOLVED[:1], SORT_PARTS)[0].outcome != "done"


def test_a_hand_in_the_workcell_is_unsafe_and_none_is_safe(model, player):
    world = player.world
    verdicts = []
    for seed in (41, 42, 43, 44):
        world.reset(seed)
        for place in (None, np.array([0.45, 0.0, 0.12])):
            world.place_hand(place)
            assert world.safe == (place is None)
            verdicts.append(model.infer([replace(player.look(), component="safety")])[0].verdict)
    assert verdicts == ["safe", "unsafe"] * 4


SOLVED = (1, 2, 4)
