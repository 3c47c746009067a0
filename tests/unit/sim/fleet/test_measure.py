"""What counts as an action, and as a qualified one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rosa_client.runtime.commands import CallEnded
from rosa_contract.config.factory import parse_factory
from rosa_sim.fleet.compare import Estimate
from rosa_sim.fleet.measure import Meter

TASK = parse_factory("""
server_cluster: {num_servers: 9}
robot_fleet: [{task: t, num_robots: 1}]
t:
  pipeline: {action_period_ms: 200, system2_to_system1_call_ratio: 0.5}
  components:
    system1: {model: a, slo_ms: 200}
    system2: {model: b, slo_ms: 1000, fallback: use_last_plan}
    safety: {model: c, slo_ms: 500, freq_hz: 2}
""").tasks["t"]
ROBOT: Any = SimpleNamespace(name="r")


class Story:
    """One robot's calls and actions on a meter that counts from 0 to 100 s."""

    def __init__(self) -> None:
        self.meter = Meter({"r": TASK}, 0.0, 100.0)

    def ended(self, now_s: float, component: str, ending: str = "in_time") -> Story:
        self.meter.ended(ROBOT, CallEnded(component, 1, ending, 50.0, 200.0), now_s)
        return self

    def acted(self, now_s: float) -> Story:
        self.meter.acted(ROBOT, now_s)
        return self

    @property
    def counted(self) -> tuple[int, int]:
        return self.meter.executed, self.meter.qualified


def test_an_action_counts_when_every_component_answered_in_time() -> None:
    assert Story().ended(1.0, "system2").ended(1.0, "safety").acted(1.1).counted == (1, 1)


@pytest.mark.parametrize("component", ["system2", "safety"])
def test_an_action_after_a_missed_call_is_executed_but_not_qualified(component: str) -> None:
    story = Story().ended(1.0, "system2").ended(1.0, "safety").ended(1.05, component, "missed")
    assert story.acted(1.1).counted == (1, 0)
    assert story.ended(1.2, component).acted(1.3).counted == (2, 1), "until it answers in time again"


def test_a_cancelled_call_breaks_no_promise() -> None:
    story = Story().ended(1.0, "system2").ended(1.0, "safety").ended(1.05, "system2", "cancelled")
    assert story.acted(1.1).counted == (1, 1)


def test_a_plan_serves_no_more_actions_than_the_call_ratio_says() -> None:
    story = Story().ended(1.0, "system2").ended(1.0, "safety")
    assert story.acted(1.1).acted(1.2).acted(1.3).counted == (3, 2)


def test_a_verdict_older_than_its_period_and_its_slo_is_an_invocation_that_did_not_happen() -> None:
    story = Story().ended(1.0, "system2").ended(1.0, "safety")
    assert story.acted(2.0).counted == (1, 1)
    assert story.acted(2.01).counted == (2, 1)


def test_before_the_first_verdict_nothing_is_qualified() -> None:
    assert Story().ended(1.0, "system2").acted(1.1).counted == (1, 0)


def test_only_the_window_counts() -> None:
    story = Story().ended(1.0, "system2").ended(1.0, "safety")
    story.meter.from_s, story.meter.to_s = 2.0, 3.0
    assert story.acted(1.9).ended(2.4, "safety").acted(2.5).acted(3.0).counted == (1, 1)


def test_raw_counts_results_that_came_too_late() -> None:
    story = Story().ended(1.0, "system1").ended(2.0, "system1", "missed")
    story.meter.late(ROBOT, "system1", 2.1)
    story.meter.late(ROBOT, "safety", 2.1)
    assert story.meter.raw == 2
    assert story.meter.calls["system1"].meet == 0.5


def test_an_interval_needs_two_seeds_and_narrows_with_more() -> None:
    assert Estimate.of([3.0]) == Estimate(3.0, None)
    two, many = Estimate.of([1.0, 3.0]), Estimate.of([1.0, 3.0] * 10)
    assert two.mean == many.mean == 2.0
    assert two.half == pytest.approx(12.71, abs=0.01)
    assert many.half is not None
    assert many.half < 0.6
