"""Words of the sorting task: every subtask and rule can be said, plans can be read back, held-out phrasings are new."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from rosa_sim.training.data import words
from rosa_sim.training.data.words import COLOURS, next_subtask, rule_of, rule_text, subtask_text


@dataclass(frozen=True)
class Block:
    colour: int
    place: str
    position: NDArray[np.float64]


def block(colour: str, place: str, x: float) -> Block:
    return Block(COLOURS.index(colour), place, np.array([x, 0.0, 0.02]))


def test_subtasks_read_as_a_person_would_say_them():
    assert subtask_text(0, 0) == "put the red block into the left bin"
    assert subtask_text(7, 1, 2) == "move the black cube to the right bin"


def test_rules_read_as_a_person_would_say_them():
    red_and_blue = rule_of([COLOURS.index("blue"), COLOURS.index("red")])
    assert (
        rule_text(red_and_blue)
        == "put red and blue blocks into the left bin and all others into the right bin"
    )
    assert (
        rule_text(rule_of([0, 1, 2]), 2)
        == "sort the blocks: red, yellow and green left, everything else right"
    )
    assert rule_text(0) == "put every block into the right bin"
    assert rule_text(words.ALL_LEFT) == "put every block into the left bin"


def test_no_two_subtasks_and_no_two_rules_are_said_alike():
    ways = [(False, len(words.SUBTASKS)), (True, len(words.HELD_OUT_SUBTASKS))]
    subtasks = [
        subtask_text(colour, side, phrasing, held_out)
        for held_out, count in ways
        for colour, side, phrasing in product(range(8), range(2), range(count))
    ]
    assert len(set(subtasks)) == len(subtasks) == 16 * 10
    rules = [rule_text(rule, phrasing) for rule in range(256) for phrasing in range(len(words.RULES))]
    rules += [rule_text(rule, phrasing, held_out=True) for rule in range(1, 255) for phrasing in range(2)]
    # All left and all right have three phrasings, and take them in turn.
    assert len(set(rules)) == 254 * 7 + 2 * 3


def test_held_out_words_are_not_among_the_trained_ones():
    for trained, held_out in (
        (words.SUBTASKS, words.HELD_OUT_SUBTASKS),
        (words.RULES, words.HELD_OUT_RULES),
        (words.ONE_BIN_RULES, words.HELD_OUT_ONE_BIN_RULES),
        (words.SAFETY_QUESTIONS, words.HELD_OUT_SAFETY_QUESTIONS),
        (words.MONITOR_QUESTIONS, words.HELD_OUT_MONITOR_QUESTIONS),
    ):
        assert held_out and not set(trained) & set(held_out)


def test_a_plan_is_read_back_as_it_was_said():
    for plan in [None, *product(range(8), range(2))]:
        assert words.read_plan(words.plan_text(plan)) == plan
    with pytest.raises(ValueError, match="not a plan"):
        words.read_plan("put the pink block into the left bin")


@pytest.mark.slow
def test_a_rule_is_read_back_from_any_phrasing_and_from_what_the_monitor_is_asked():
    for rule, phrasing, held_out in product(range(0, 256, 3), range(5), (False, True)):
        said = rule_text(rule, phrasing, held_out)
        assert words.read_rule(said) == words.read_rule(f"{said}: ongoing, done, or failed?") == rule
    with pytest.raises(ValueError, match="no rule of sorting"):
        words.read_rule("tidy up")


def test_the_block_nearest_to_the_base_comes_first_and_goes_where_the_rule_says():
    blocks = [block("red", "mat", 0.55), block("grey", "mat", 0.42), block("blue", "mat", 0.60)]
    rule = rule_of([COLOURS.index("red")])
    assert next_subtask(rule, blocks) == (COLOURS.index("grey"), words.RIGHT)
    blocks[1] = block("grey", "right", 0.47)
    assert next_subtask(rule, blocks) == (COLOURS.index("red"), words.LEFT)


def test_the_block_in_the_hand_comes_before_all_others():
    blocks = [block("red", "mat", 0.38), block("grey", "mat", 0.42), block("blue", "hand", 0.60)]
    assert next_subtask(0, blocks) == (COLOURS.index("blue"), words.RIGHT)


def test_nothing_is_left_to_do_when_no_block_can_be_moved():
    blocks = [block("red", "left", 0.5), block("grey", "right", 0.5), block("blue", "lost", 0.8)]
    assert next_subtask(0, blocks) is None
