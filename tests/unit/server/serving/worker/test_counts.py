"""What an engine counts is told with each batch; whatever it says, the batch is answered."""

from __future__ import annotations

from typing import Any

import numpy as np

from rosa_server.serving.worker.counts import Counts


class Engine:
    def __init__(self, counts: Any) -> None:
        self._counts, self.asked = counts, 0

    def counts(self) -> Any:
        self.asked += 1
        if isinstance(self._counts, Exception):
            raise self._counts
        return self._counts


def read(counts: Any) -> dict[str, int]:
    return Counts(Engine(counts).counts, "w0").read()


def test_counts_are_whole_numbers_by_name_and_anything_else_is_left_out() -> None:
    told = {
        "prefills": 3,
        "held": np.int64(5),
        "on": True,
        "share": 0.5,
        7: 1,
        "less": -1,
        "": 1,
        "most": 1 << 63,
    }
    assert read(told) == {"prefills": 3, "held": 5, "on": 1}
    assert {type(count) for count in read(told).values()} == {int}
    assert list(read({str(number): number for number in range(100)})) == [str(number) for number in range(32)]
    assert read(None) == {}


def test_a_backend_that_counts_nothing_says_nothing() -> None:
    assert Counts(None, "w0").read() == {}


def test_an_engine_that_cannot_count_is_not_asked_again() -> None:
    engine = Engine(RuntimeError("the engine has ended"))
    counts = Counts(engine.counts, "w0")
    assert (counts.read(), counts.read(), engine.asked) == ({}, {}, 1)
