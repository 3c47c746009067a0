"""What a request costs the gateway: the timed methods exist, and times are put together without counting any twice."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.transport import gateway_cost
from benchmarks.transport.gateway_cost import Parts


def test_the_timed_methods_exist_and_are_timed_in_the_measured_server_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed: list[tuple[Any, str]] = []
    monkeypatch.setattr(Parts, "time", lambda self, owner, name, part: timed.append((owner, name)))
    gateway_cost.timed_parts(Parts())
    assert timed and all(callable(getattr(owner, name)) for owner, name in timed)


def test_a_method_is_counted_without_what_it_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now_ns = 0
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now_ns)

    class Work:
        def outer(self) -> str:
            nonlocal now_ns
            now_ns += 3000
            return self.inner()

        def inner(self) -> str:
            nonlocal now_ns
            now_ns += 5000
            return "done"

    parts = Parts()
    parts.time(Work, "outer", "outside")
    parts.time(Work, "inner", "inside")
    assert [Work().outer() for _ in range(4)] == ["done"] * 4
    parts.write(tmp_path / "parts.json")
    assert gateway_cost.parts_of(tmp_path, requests=2) == {"outside": 6.0, "inside": 10.0}


def test_the_cpu_time_of_this_process_is_found_by_thread() -> None:
    before = gateway_cost.spent_ns(os.getpid())
    end_s = time.thread_time() + 0.02
    while time.thread_time() < end_s:
        json.dumps([1] * 1000)
    after = gateway_cost.spent_ns(os.getpid())
    assert after["decides"] - before["decides"] >= 10e6


@pytest.mark.parametrize(("spent_us", "holds"), [(120.0, True), (180.0, False)])
def test_one_core_carries_enough_or_not(spent_us: float, holds: bool) -> None:
    turn = {"requests": 100.0, "decides": spent_us, "ZeroMQ's": 40.0, "others": 0.0}
    slow = {**turn, "decides": 10 * spent_us}
    rows = gateway_cost.rows_of({gateway_cost.OURS: {16: [turn, turn, turn, slow]}})
    assert rows[0]["gateway_us"] == spent_us + 40.0, "the lower quartile leaves the disturbed turn out"
    assert [aim["holds"] for aim in gateway_cost.judge(rows)] == [holds]
    assert "decides" in gateway_cost.table(rows, {"answer: send": 3.4})
