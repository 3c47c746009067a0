"""What is said about the sorting task: subtasks, rules, questions and answers. Plain data and pure functions.

A *rule* is a bit mask over `COLOURS`: blocks of a set bit's colour go left, all others right. A *subtask* is a pair of
ids (colour, bin). Phrasing 0 is the canonical one; those in `held_out` are never trained on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rosa_sim.cell.layout.hardware import SORT_PARTS, cell

Subtask = tuple[int, int]
COLOURS, BINS = cell(SORT_PARTS).colour_names, cell(SORT_PARTS).bin_names
LEFT, RIGHT = 0, 1
ALL_LEFT = (1 << len(COLOURS)) - 1
ALL_DONE = "all done"
SAFE = ("unsafe", "safe")  # by the truth value of "safe"
OUTCOMES = ("ongoing", "done", "failed")

SUBTASKS = (
    "put the {colour} block into the {bin} bin",
    "place the {colour} block in the {bin} bin",
    "move the {colour} cube to the {bin} bin",
    "pick up the {colour} block and drop it into the {bin} bin",
    "the {colour} block belongs in the {bin} bin",
    "take the {colour} cube and put it into the bin on the {bin}",
    "{colour} block, {bin} bin",
)
HELD_OUT_SUBTASKS = (
    "drop the {colour} cube in the {bin} bin",
    "please bring the {colour} block to the bin on the {bin}",
    "put the {colour} cube into the {bin} bin",
)
RULES = (
    "put {colours} blocks into the left bin and all others into the right bin",
    "{colours} blocks go to the left bin, the rest to the right bin",
    "sort the blocks: {colours} left, everything else right",
    "move {colours} cubes to the left bin and every other cube to the right bin",
    "the left bin is for {colours} blocks, the right bin for all others",
)
HELD_OUT_RULES = (
    "place {colours} blocks in the left bin and the others in the right bin",
    "{colours} cubes belong in the left bin, all others in the right bin",
)
ONE_BIN_RULES = (
    "put every block into the {bin} bin",
    "all blocks go to the {bin} bin",
    "move every cube to the {bin} bin",
)
HELD_OUT_ONE_BIN_RULES = ("place all blocks in the {bin} bin",)
SAFETY_QUESTIONS = (
    "is the workcell safe?",
    "is it safe to move?",
    "is nobody reaching into the workcell?",
    "safe or unsafe?",
)
HELD_OUT_SAFETY_QUESTIONS = ("is the work area safe?", "can the arm move safely?")
MONITOR_QUESTIONS = (
    "ongoing, done, or failed?",
    "is the task ongoing, done or failed?",
    "how does the task stand?",
    "done, failed, or still ongoing?",
)
HELD_OUT_MONITOR_QUESTIONS = (
    "has the task been done, has it failed, or is it ongoing?",
    "how is the task going?",
)


def subtask_text(colour: int, bin_id: int, phrasing: int = 0, held_out: bool = False) -> str:
    """A subtask in words. Raises `IndexError` for a phrasing that there is not."""
    return (HELD_OUT_SUBTASKS if held_out else SUBTASKS)[phrasing].format(
        colour=COLOURS[colour], bin=BINS[bin_id]
    )


def rule_text(rule: int, phrasing: int = 0, held_out: bool = False) -> str:
    """A rule in words; colours in the order of `COLOURS`. Takes `phrasing` modulo the phrasings that there are."""
    if rule in (0, ALL_LEFT):
        texts: tuple[str, ...] = HELD_OUT_ONE_BIN_RULES if held_out else ONE_BIN_RULES
        return texts[phrasing % len(texts)].format(bin=BINS[LEFT if rule else RIGHT])
    texts = HELD_OUT_RULES if held_out else RULES
    return texts[phrasing % len(texts)].format(colours=listed(colours_of(rule)))


def read_rule(text: str) -> int:
    """The rule that `text` contains, in any phrasing. Raises `ValueError` when it contains none."""
    for rule in range(ALL_LEFT, -1, -1):
        for held_out, texts in ((False, RULES), (True, HELD_OUT_RULES)):
            if any(rule_text(rule, number, held_out) in text for number in range(len(texts))):
                return rule
    raise ValueError(f"no rule of sorting in {text!r}: expected such as {rule_text(rule_of([0, 3]))!r}")


def colours_of(rule: int) -> list[int]:
    """The colours that go left."""
    return [colour for colour in range(len(COLOURS)) if rule >> colour & 1]


def rule_of(colours: Iterable[int]) -> int:
    """The rule by which these colours go left."""
    rule = 0
    for colour in colours:
        rule |= 1 << colour
    return rule


def bin_by(rule: int, colour: int) -> int:
    """The bin of a colour."""
    return LEFT if rule >> colour & 1 else RIGHT


def listed(colours: list[int]) -> str:
    """ "red", "red and blue", "red, green and blue"."""
    names = [COLOURS[colour] for colour in colours]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


class SeenTable(Protocol):
    """A block as a plan needs it."""

    @property
    def colour(self) -> int:
        """Its id."""

    @property
    def place(self) -> str:
        """mat, hand, left, right or lost."""

    @property
    def position(self) -> NDArray[np.float64]:
        """`(3,)`, m, the robot's base at the origin."""


def next_subtask(rule: int, blocks: Iterable[SeenTable]) -> Subtask | None:
    """What to do next by `rule`: the block in the hand first, then those on the mat, nearest to the base first.

    None when no block is left that can be moved: a block in the wrong bin or off the mat is out of reach.
    """
    left = [block for block in blocks if block.place in ("mat", "hand")]
    if not left:
        return None
    first = min(left, key=lambda block: (block.place != "hand", float(block.position[0])))
    return first.colour, bin_by(rule, first.colour)


def monitor_text(task: str, question: str) -> str:
    """What the monitor is asked about a task in words, a subtask or a rule."""
    return f"{task}: {question}"


def plan_text(subtask: Subtask | None) -> str:
    """What System 2 answers."""
    return ALL_DONE if subtask is None else subtask_text(*subtask)


def read_plan(text: str) -> Subtask | None:
    """The inverse of `plan_text`. Raises `ValueError` for any other text."""
    if text == ALL_DONE:
        return None
    known = {plan_text((colour, side)): (colour, side) for colour in range(len(COLOURS)) for side in range(2)}
    if text not in known:
        raise ValueError(f"not a plan: {text!r}")
    return known[text]
