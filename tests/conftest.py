"""How `make test` spreads the tests over processes: see `tests/lanes.py`."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.lanes import Lanes, live_lanes, workers

LOW_PRIORITY = 10


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> Lanes:
    return Lanes(len(config.getvalue("tx")), live_lanes())


def pytest_configure(config: pytest.Config) -> None:
    """In a process that runs no live files: leave the cores to those that do."""
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if given and int(given["workerid"].removeprefix("gw")) >= live_lanes():
        os.nice(LOW_PRIORITY)
