"""A time limit holds wherever the computation is when it passes."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from rosa_server.scheduler.commands.patience import OutOfTimeError, within

LIMIT_S = 0.05


class Slow:
    """Takes its time where nothing can be raised."""

    def __del__(self) -> None:
        end_s = time.monotonic() + 4 * LIMIT_S
        while time.monotonic() < end_s:
            pass


def endless() -> None:
    Slow()
    while True:
        pass


def test_a_limit_that_passes_where_nothing_can_be_raised_holds_a_little_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with pytest.raises(OutOfTimeError, match="was not finished within"), within(LIMIT_S, "the test"):
        endless()
    assert told == [], "nobody reads that an exception was ignored"
    assert sys.unraisablehook == told.append
