"""The pages whose commands are demos: ten episodes each, so these take a quarter of an hour."""

from __future__ import annotations

from tests.reader import Reader


def test_the_simulated_cell(reader: Reader) -> None:
    printed = reader.do("tutorials/simulated_cell")
    assert "panda0  pick_and_place" in printed and "#token=" in printed
    assert printed.count("of 10 episodes succeeded") == 4 and "of 3 episodes succeeded" in printed
    assert "server_killed " in printed


def test_a_fault_is_answered(reader: Reader) -> None:
    printed = reader.do("tutorials/fault")
    assert "answer it: rosa operator decide panda0 resume" in printed and "resume: accepted" in printed


def test_a_fault_ends_as_promised(reader: Reader) -> None:
    printed = reader.do("failure_ladder")
    assert "server_killed " in printed and "as promised" in printed
