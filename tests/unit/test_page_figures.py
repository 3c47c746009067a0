"""Measured figures that people wrote into sentences and tables are those of the result files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def rows(result: str, **wanted: Any) -> list[dict[str, Any]]:
    """The rows of a result that have these values."""
    found = json.loads((ROOT / "benchmarks" / "results" / f"{result}.json").read_text())["rows"]
    return [one for one in found if all(one.get(key) == value for key, value in wanted.items())]


def figures() -> Iterator[tuple[str, str]]:
    """(page, words that it has)."""
    [moved] = rows("moved_state", model="vla", engine="kv_sharing")
    again, stays = moved["again_moved_ms"], moved["again_stays_ms"]
    yield "docs/operations.md", f"{again - stays:.0f} ms for the second question about an observation"
    yield "docs/operations.md", f"({again:.0f} instead of {stays:.0f} ms on a busy core"
    for robots in (1, 2, 4, 8, 16):
        engines = ("isolated", "kv_sharing", "kv_sharing, one by one")
        one = {row["engine"]: row for row in rows("kv_serving", robots=robots)}
        cpu = " | ".join(f"{one[engine]['cpu_ms']:.0f}" for engine in engines)
        p50 = ", ".join(f"{one[engine]['system1_p50_ms']:.0f}" for engine in engines[:2])
        yield "docs/add_a_model.md", f"| {robots} | {cpu} | {p50} |"
    trials = {row["rest_ms"]: row["rounds"] for row in rows("closed_loop_trials", steps=8, latency_ms=100.0)}
    yield "docs/execution.md", f"takes {trials[100.0]:.1f} rounds instead of {trials[0.0]:.1f}"
    [unsafe] = rows("vla", what="safety: unsafe said of unsafe looks (recall)")
    [shown] = rows("vla", what="safety: recall where a camera shows the hand")
    yield "docs/what_ships.md", f"it calls {100 * unsafe['share']:.0f} % unsafe (aim: 99 %)"
    yield "docs/what_ships.md", f"{100 * shown['share']:.0f} % of those in which a camera shows the hand"
    [ahead] = rows("arm_interface", way="smooth trajectory, 30 ms ahead, from desired")
    [forward] = rows("arm_interface", way="forward position")
    beyond = "command_over_acceleration_limit_percent"
    words = (
        f"a delay of {ahead['command_delay_ms']} ms, and {ahead[beyond]:.1f} % of the controller's updates"
    )
    yield "docs/add_a_robot.md", words
    yield "docs/add_a_robot.md", f"it is {forward[beyond]:.0f} %"


@pytest.mark.parametrize(("page", "words"), list(figures()))
def test_a_figure_of_a_page_is_that_of_its_result(page: str, words: str) -> None:
    text = re.sub(r"\s+", " ", (ROOT / page).read_text())
    assert words in text
