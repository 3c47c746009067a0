"""What the search takes for the same state (`rosa_sim/explore/keys.py`): such situations go on alike.

The coarse key is compared with the fine one where both can be searched; `make prove` does so on larger cells too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator

import pytest

from rosa_client.runtime.commands import CallEnded, Command, Decision, MoveTo, Send
from rosa_client.runtime.mission import Mission
from rosa_sim.explore.cells import core_of
from rosa_sim.explore.events import possible
from rosa_sim.explore.keys import Key, coarse, fine
from rosa_sim.explore.search import search
from rosa_sim.explore.situation import Situation
from tests.examples import examples

SMALL = ["asynchronous, planned"]
LARGER = [
    "strict",
    "guarded, stands still",
    "asynchronous, guarded",
    "asynchronous, planned ahead",
    "planned strictly",
    "inspection",
]
CELLS = [*SMALL, *LARGER[: examples(0, len(LARGER))]]


@pytest.mark.slow
@pytest.mark.prove
def test_situations_with_one_fine_key_go_on_alike() -> None:
    """Two ways to what counts as one state: whatever can happen in both leads to the same states again."""
    enough = examples(1_000, 1_000_000)
    first: dict[Hashable, dict[str, Hashable]] = {}
    waiting = deque([start("careful planner")])
    twice = 0
    while waiting and twice < enough:
        situation = waiting.popleft()
        key, following = fine(situation), dict(what_follows(situation))
        after = {event: fine(child) for event, child in following.items()}
        expected = first.get(key)
        if expected is None:
            first[key] = after
            waiting.extend(following.values())
            continue
        twice += 1
        assert {event: after[event] for event in expected if event in after} == {
            event: expected[event] for event in after if event in expected
        }
    assert twice >= 1_000


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("cell", CELLS)
def test_situations_with_one_coarse_key_go_on_alike(cell: str) -> None:
    """Every fine state of a cell: those with one coarse key give the same commands and lead to the same coarse keys."""
    assert not differing(cell, coarse)


@pytest.mark.slow
def test_a_core_that_reads_what_the_coarse_key_leaves_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes what the arm does before it has taken an order for what it does with that order."""
    monkeypatch.setattr(Mission, "arm_is_behind", property(lambda core: False))
    assert differing("asynchronous, planned", coarse)


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("cell", CELLS)
def test_both_keys_find_the_same(cell: str) -> None:
    with_fine, with_coarse = (search(core_of(cell), key_of=key_of) for key_of in (fine, coarse))
    assert with_fine.complete
    assert with_coarse.complete
    assert with_coarse.problems == with_fine.problems == []
    assert with_coarse.rows == with_fine.rows
    assert with_coarse.longest == with_fine.longest
    assert with_coarse.states < 0.7 * with_fine.states


# -- how a situation goes on ------------------------------------------------------------------------------------------


def differing(cell: str, key_of: Key) -> list[tuple[Hashable, Hashable]]:
    """Pairs of fine states of a cell with one `key_of` that go on differently."""
    first: dict[Hashable, tuple[Hashable, object]] = {}
    situation = start(cell)
    known, waiting = {fine(situation)}, deque([situation])
    pairs = []
    while waiting:
        situation = waiting.popleft()
        ways = set()
        for _, child in what_follows(situation):
            ways.add((tuple(said(command) for command in child.commands), key_of(child)))
            key = fine(child)
            if key not in known:
                known.add(key)
                waiting.append(child)
        one, expected = first.setdefault(key_of(situation), (fine(situation), ways))
        if ways != expected:
            pairs.append((one, fine(situation)))
    return pairs


def start(cell: str) -> Situation:
    situation = Situation(core_of(cell))
    situation.settle()
    return situation


def what_follows(situation: Situation) -> Iterator[tuple[str, Situation]]:
    """Every event, and the situation that it leads to."""
    for event, happen in possible(situation):
        yield event, happened(situation, happen)


def happened(situation: Situation, happen: Callable[[Situation], None]) -> Situation:
    after = situation.copy()
    happen(after)
    after.settle()
    return after


def said(command: Command) -> Hashable:
    """A command without its number, and without why: the cause of an alert at the safe pose lies further back."""
    kind = type(command).__name__
    if isinstance(command, Decision):
        return (kind, command.action)
    if isinstance(command, CallEnded):
        return (kind, command.component, command.ending)
    if isinstance(command, MoveTo):
        return (kind, command.pose, command.gripper)
    if isinstance(command, Send):
        return (kind, command.component, command.overlap is not None)
    return kind
