"""What GR00T's clients say, without a socket."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from rosa_server.frontends.gr00t_words import N15, N16, N17, asked
from rosa_server.models.remote.arrays import Dialect, WireError, unpack


def test_an_array_without_values_makes_no_batch_of_a_billion_robots() -> None:
    """84 bytes: a shape with a zero in it needs no data, however large its other sides are."""
    empty = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [10**9, 1, 0], b"data": b""}
    request, arrays = unpack(msgpack.packb({"data": {"state.arm": empty}}))
    ask = asked(request["data"], arrays, "")
    assert ask.size == 10**9  # for the frontend to refuse; nothing was made of it
    assert ask.observation(7)["state.arm"].shape == (0,)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_a_batch_is_split_robot_by_robot(batch: int) -> None:
    size = (batch,) if batch else ()
    arm = np.arange(max(1, batch) * 7, dtype=np.float32).reshape(*size, 1, 7)
    told: dict[str, Any] = {
        "video.ego": np.zeros((*size, 2, 4, 4, 3), np.uint8),
        "state.arm": arm,
        "annotation.task": [f"task {number}" for number in range(max(1, batch))],
    }
    ask = asked(told, {Dialect.NPY}, "")
    assert (ask.dialect, ask.nested, ask.batched, ask.size) == (N15, False, batch > 0, max(1, batch))
    last = ask.observation(ask.size - 1)
    assert last["state.arm"].tolist() == [*range(7 * (ask.size - 1), 7 * ask.size)]
    assert last["video.ego"].shape == (2, 4, 4, 3) and last["annotation.task"] == f"task {ask.size - 1}"


def test_the_dialect_is_told_by_arrays_and_form_and_else_the_one_shown_before() -> None:
    arm = np.zeros((1, 1, 7), np.float32)
    nested = {"observation": {"state": {"arm": arm}}, "options": None}
    assert asked(nested, {Dialect.NPY}, "").dialect == N16
    assert asked(nested, {Dialect.ND}, N16).dialect == N17
    assert asked({"state.arm": arm}, {Dialect.NPY}, N17).dialect == N15
    assert asked({"observation": {"annotation.task": "x"}}, set(), N17).dialect == N17


def test_arrays_of_different_batches_and_states_of_several_steps_are_refused() -> None:
    two, three = np.zeros((2, 1, 7), np.float32), np.zeros((3, 1, 1), np.float32)
    with pytest.raises(WireError, match="different batch sizes"):
        asked({"state.arm": two, "state.hand": three}, {Dialect.NPY}, "")
    with pytest.raises(WireError, match="one step, got 4"):
        asked({"state.arm": np.zeros((2, 4, 7), np.float32)}, {Dialect.NPY}, "").observation(0)
    with pytest.raises(WireError, match="too many dimensions"):
        asked({"state.arm": np.zeros((1, 1, 1, 7), np.float32)}, {Dialect.NPY}, "")


def test_an_instruction_that_is_an_array_is_split_by_no_batch() -> None:
    for wrong in (np.zeros(()), np.zeros(1)):
        ask = asked({"state.arm": np.zeros((2, 1, 7)), "annotation.task": wrong}, {Dialect.NPY}, "")
        assert ask.observation(1)["annotation.task"] is wrong  # the mapping refuses it
