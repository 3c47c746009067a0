"""Which calls meet: those whose time to leave holds the beginning of a round, and System 1's with System 2's."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_contract.config.factory import load_factory, parse_factory
from rosa_server.scheduler.problem import Need, problem_from
from rosa_server.scheduler.profiles.prefixes import prefixes_saved_hz

ROOT = Path(__file__).parents[5]
SYSTEM1 = Need("system1", "vla", 500.0, calls_per_action=1.0, shares_s=0.45)
SYSTEM2 = Need("system2", "vla", 2000.0, calls_per_action=0.5, shares_s=0.45)


def periodic(component: str, freq_hz: float, early_s: float) -> Need:
    max_hz = 1 / (1 / freq_hz - early_s)
    return Need(component, "vla", 500.0, freq_hz=max_hz, period_s=1 / freq_hz, early_s=early_s)


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


def test_periodic_calls_may_leave_early_as_the_factory_file_says() -> None:
    factory = load_factory(ROOT / "configs" / "sort_parts.yaml")
    needs = {need.component: need for need in problem_from(factory).classes[0].needs}
    assert needs["safety"].early_s == factory.tasks["sort_parts"].pipeline.early_s(2.0) > 0
    assert needs["safety"].period_s == 0.5
    assert needs["system2"].shares_s > 0


@pytest.mark.parametrize(
    ("freq_hz", "share_ms"), [(2.0, 450), (1.0, 450), (2.0, 100), (5.0, 450), (0.5, 900)]
)
@pytest.mark.parametrize("action_ms", [100, 300, 400])
def test_periodic_calls_are_never_made_more_often_than_planned_for(
    freq_hz: float, share_ms: float, action_ms: float
) -> None:
    """The rule of the robot's core (`observing.py`), for rounds of every length."""
    text = FACTORY.format(freq_hz=freq_hz, share_ms=share_ms, action_ms=action_ms)
    factory = parse_factory(text)
    (cls,) = problem_from(factory).classes
    (watch,) = cls.obligations
    early_s = factory.tasks["t"].pipeline.early_s(freq_hz)
    for steps in range(60):
        round_s = action_ms / 1000 + 0.017 * steps
        assert calls_per_s(1 / freq_hz, early_s, round_s) <= watch.freq_hz * 1.01


def calls_per_s(period_s: float, early_s: float, round_s: float, rounds: int = 400) -> float:
    """Of a component that leaves with a round from `early_s` before it is due on, and by itself when it is due."""
    due_s, calls = 0.0, 0
    for number in range(rounds):
        begins_s = number * round_s
        while due_s < begins_s - 1e-9:
            due_s, calls = due_s + period_s, calls + 1
        if begins_s >= due_s - early_s - 1e-9:
            due_s, calls = begins_s + period_s, calls + 1
    return (calls - 1) / ((rounds - 1) * round_s)


FACTORY = """
server_cluster: {{num_servers: 2}}
robot_fleet: [{{task: t, num_robots: 1}}]
t:
  pipeline: {{action_period_ms: {action_ms}, share_observation_ms: {share_ms}}}
  components:
    system1: {{model: a, slo_ms: 200}}
    watch: {{model: b, slo_ms: 200, freq_hz: {freq_hz}}}
"""
