"""One side of a bond: what it says, to whom it listens, and when it gives up."""

from __future__ import annotations

import itertools

from rosa_client.loops.bond import BOND, CONNECT_WITHIN_S, DISCONNECT_WITHIN_S, Bond, BondEvent, BondState
from rosa_client.runtime.machines.machine import advance

NAME = "arm_node"


def bond() -> Bond:
    return Bond(100.0, NAME, "node")


def formed() -> Bond:
    made = bond()
    assert made.hear(NAME, "manager", True) is None
    assert made.state is BondState.ALIVE
    return made


def test_it_speaks_until_somebody_answers_and_for_as_long_as_that_bond_lives() -> None:
    one = bond()
    assert [one.beat(100.0), one.beat(101.0)] == [True, True]
    one = formed()
    assert one.beat(1e6) is True, "silence of the manager ends nothing on this side"


def test_without_an_answer_it_falls_silent() -> None:
    one = bond()
    assert one.beat(100.0 + CONNECT_WITHIN_S) is None
    assert one.state is BondState.DEAD


def test_its_own_words_and_those_of_other_bonds_do_not_count() -> None:
    one = bond()
    for name, instance in ((NAME, "node"), ("camera_node", "manager")):
        assert one.hear(name, instance, True) is None
        assert one.hear(name, instance, False) is None
    assert one.state is BondState.WAITING


def test_who_ends_it_says_so_until_the_other_side_knows_or_for_a_while() -> None:
    one = formed()
    assert one.end(200.0) is False
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
