"""What `rosa robots` makes of the news of a server."""

from __future__ import annotations

from typing import Any

from rosa_server.commands.live.robots import at_work, rows, table
from rosa_server.serving.watching.hub import ABOUT, ROBOTS, STATE

TASKS = {"pick": {"system1": ["policy", 500.0, 2.0]}}


def told(
    at_s: float, answered: int, in_time: int, worst_ms: float, heard_s: float = 0.1
) -> tuple[bytes, Any]:
    answers = ["system1", 500.0, answered, in_time, 200.0, worst_ms]
    asks = ["arm1", "pick", "pick/0", heard_s, True, [answers], {"system1": "gpu0"}]
    rests = ["arm2", "pick", "pick/1", 2.0, True, [], {"system1": "gpu1"}]
    return ROBOTS, {"v": 1, "at_s": at_s, "robots": [asks, rests]}


def test_rates_are_differences_and_the_worst_margin_is_that_of_the_whole_time() -> None:
    news = [(ABOUT, {"tasks": TASKS}), (STATE, {}), told(10.0, 100, 90, 150.0), told(11.0, 102, 92, -50.0)]
    news.append(told(12.0, 104, 93, 300.0))
    first, second = rows(news)
    assert first == {
        "robot": "arm1",
        "task": "pick",
        "slot": "pick/0",
        "component": "system1",
        "model": "policy",
        "server": "gpu0",
        "calls_per_s": 2.0,
        "planned_per_s": 2.0,
        "in_time": 0.75,
        "slo_ms": 500.0,
        "worst_left": -0.1,
        "silent_s": 0.1,
    }
    assert second == {"robot": "arm2", "task": "pick", "slot": "pick/1", "silent_s": 2.0}


def test_the_table_has_a_line_for_each_and_says_nothing_that_is_not_known() -> None:
    title, asks, rests = table(rows([told(10.0, 100, 90, 150.0)])).splitlines()
    assert title.split()[:2] == ["robot", "task"]
    assert asks.split() == ["arm1", "pick", "pick/0", "system1", "gpu0", "-", "-", "-", "30%", "0.1"]
    assert rests.split() == ["arm2", "pick", "pick/1", "-", "-", "-", "-", "-", "-", "2.0"]
    assert len(table([]).splitlines()) == 1  # `rosa robots` says instead that nobody is there


def test_what_is_at_work_and_what_is_kept_away_has_a_line_each() -> None:
    rollout = {"what": "rollout", "target": "policy", "by": "ann", "for_s": 12.4, "doing": "policy/0.2 loads"}
    told = {"operations": [rollout], "drained": ["gpu1/0"], "removed": ["arm7"]}
    assert at_work([(STATE, {"at_work": {}}), (STATE, {"at_work": told}), (ABOUT, {})]) == [
        "rollout policy by ann, for 12 s: policy/0.2 loads",
        "gpu1/0 is drained; `rosa undrain gpu1/0` gives it back",
        "arm7 is removed; `rosa admit arm7` gives it back",
    ]
    assert at_work([(STATE, {})]) == [], "a server of an older release tells nothing of it"
