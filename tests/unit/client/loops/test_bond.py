"""One side of a bond: what it says, to whom it listens, and when it gives up."""

from __future__ import annotations

import itertools

from rosa_client.loops.bond import (
    BOND,
    CONNECT_WITHIN_S,
    DISCONNECT_WITHIN_S,
    LAST_WORDS_EVERY_S,
    Bond,
    BondEvent,
    BondState,
)
from rosa_client.runtime.machines.machine import advance

NAME = "arm_node"
PERIOD_S = 0.25


def bond() -> Bond:
    return Bond(100.0, NAME, "node", PERIOD_S)


def formed() -> Bond:
    made = bond()
    assert made.hear(NAME, "manager", True) is True, "the manager waits for an answer"
    assert made.state is BondState.ALIVE
    return made


def test_without_a_manager_it_says_nothing_and_after_a_while_listens_no_more() -> None:
    one = bond()
    assert (one.beat(100.0), one.beat(101.0), one.state) == (None, None, BondState.WAITING)
    assert one.every_s == CONNECT_WITHIN_S
    assert one.beat(100.0 + one.every_s) is None
    assert one.state is BondState.DEAD


def test_it_answers_at_once_and_speaks_for_as_long_as_that_bond_lives() -> None:
    one = formed()
    assert one.every_s == PERIOD_S
    assert one.hear(NAME, "manager", True) is None, "one answer, then its own beats"
    assert one.beat(1e6) is True, "silence of the manager ends nothing on this side"


def test_its_own_words_and_those_of_other_bonds_do_not_count() -> None:
    one = bond()
    for name, instance in ((NAME, "node"), ("camera_node", "manager")):
        assert one.hear(name, instance, True) is None
        assert one.hear(name, instance, False) is None
    assert one.state is BondState.WAITING


def test_who_ends_it_says_so_until_the_other_side_knows_or_for_a_while() -> None:
    one = formed()
    assert one.end(200.0) is False
    assert one.every_s == LAST_WORDS_EVERY_S
    assert one.beat(200.1) is False
    assert one.hear(NAME, "manager", True) is None, "what was under way"
    assert one.hear(NAME, "manager", False) is None
    assert (one.state, one.beat(200.2)) == (BondState.DEAD, None)
    alone = formed()
    alone.end(200.0)
    assert alone.beat(200.0 + DISCONNECT_WITHIN_S) is None


def test_an_end_by_the_manager_is_acknowledged_once() -> None:
    one = formed()
    assert one.hear(NAME, "manager", False) is False
    assert one.hear(NAME, "manager", False) is None
    assert (one.state, one.end(200.0), one.beat(200.0)) == (BondState.DEAD, None, None)


def test_whatever_the_other_side_says_is_legal_in_every_state() -> None:
    for state, event in itertools.product(BondState, BondEvent):
        if event is not BondEvent.TIMEOUT:
            assert advance(BOND, state, event) is BOND[state, event]
