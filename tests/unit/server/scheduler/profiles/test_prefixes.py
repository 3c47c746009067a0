"""Which calls meet: those whose time to leave holds the beginning of a round, and System 1's with System 2's."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_contract.config import load_factory, parse_factory
from rosa_server.scheduler.problem import Need, problem_from
from rosa_server.scheduler.profiles.prefixes import prefixes_saved_hz

ROOT = Path(__file__).parents[5]
SYSTEM1 = Need("system1", "vla", 500.0, calls_per_action=1.0, shares_s=0.45)
SYSTEM2 = Need("system2", "vla", 2000.0, calls_per_action=0.5, shares_s=0.45)


def periodic(component: str, freq_hz: float, early_s: float) -> Need:
    return Need(component, "vla", 500.0, freq_hz=1 / (1 / freq_hz - early_s), early_s=early_s)


@pytest.mark.parametrize(
    ("round_s", "safety_meets", "monitor_meets"),
    [
        (0.43, True, True),  # 70 and 140 ms early
        (0.50, True, True),
        (0.53, False, False),  # safety would be late for each round, the monitor is for the second
        (0.24, True, True),  # with every second round
        (0.60, False, True),
    ],
)
def test_a_call_meets_a_round_that_begins_while_it_may_leave(
    round_s: float, safety_meets: bool, monitor_meets: bool
) -> None:
    safety, monitor = periodic("safety", 2.0, 0.25), periodic("monitor", 1.0, 0.45)
    saved = prefixes_saved_hz([(SYSTEM1, 1 / round_s), (safety, 4.0), (monitor, 1 / 0.55)])
    assert ("safety" in saved) is safety_meets
    assert ("monitor" in saved) is monitor_meets


def test_system_1_meets_system_2_as_often_as_that_is_called() -> None:
    assert prefixes_saved_hz([(SYSTEM1, 2.0), (SYSTEM2, 1.0)]) == {"system1": 1.0}
    assert prefixes_saved_hz([(SYSTEM1, 2.0)]) == {}


def test_without_rounds_on_this_server_nothing_is_known_to_meet_them() -> None:
    assert (
        prefixes_saved_hz([(periodic("safety", 2.0, 0.25), 4.0), (periodic("monitor", 1.0, 0.45), 1.8)]) == {}
    )


def test_periodic_calls_are_planned_for_as_often_as_they_may_leave() -> None:
    text = (ROOT / "configs" / "sort_parts.yaml").read_text()
    problem = problem_from(parse_factory(text))
    pipeline = load_factory(ROOT / "configs" / "sort_parts.yaml").tasks["sort_parts"].pipeline
    safety = {need.component: need for need in problem.classes[0].needs}["safety"]
    assert safety.early_s == pipeline.early_s(2.0) > 0
    assert 1 / safety.freq_hz + safety.early_s == pytest.approx(0.5)
