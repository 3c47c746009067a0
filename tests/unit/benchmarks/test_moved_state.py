"""A robot that moves to another worker gets the answers that it would have had where it was."""

from __future__ import annotations

import pytest

from benchmarks.engines.moved_state import MAX_DIFFERENCE_RAD, measure


@pytest.mark.parametrize(("model", "engine"), [("vla", "kv_sharing"), ("token_policy", "pipelined")])
def test_nothing_is_lost_with_the_state_of_an_engine(model: str, engine: str) -> None:
    row = measure(model, engine, 1)
    assert row["differs"] <= MAX_DIFFERENCE_RAD
    assert ("again_moved_ms" in row) == (model == "vla"), "only prefixes are shared"
