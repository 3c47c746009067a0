"""What `capacity` says of what robots saw: on calls that are written down here."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.transport import capacity
from benchmarks.transport.capacity import Seen


def test_calls_that_could_not_begin_count_as_late() -> None:
    seen = [Seen([0.02] * 90, [0.001], begun=95, skipped=5), Seen([0.3] * 2, [0.004] * 3, begun=2)]
    row = capacity.row_of(seen, 2.0)
    assert (row["answered_hz"], row["in_time"]) == (46.0, round(90 / 102, 4))
    assert row["not_begun"] == round(5 / 102, 4)
    assert (row["p50_ms"], row["robots_late_ms"]) == (20.0, 4.0)


def test_robots_that_only_wait_have_no_calls() -> None:
    row = capacity.row_of([Seen(lags_s=[0.0])], 2.0)
    assert (row["answered_hz"], row["in_time"], row["p99_ms"]) == (0.0, None, None)
    assert capacity.limit_of(row | {"busy_cores": {"gateway": 9.0}}, 1.0) == ""


@pytest.mark.parametrize(
    ("in_time", "not_begun", "thread", "waited", "worker", "says"),
    [
        (0.995, 0.0, 0.99, 0.9, 0.99, ""),
        (0.5, 0.5, 0.95, 0.9, 0.99, "the gateway's thread that decides"),
        (0.5, 0.5, 0.5, 0.45, 0.99, "the cores of this machine"),
        (0.5, 0.5, 0.5, 0.1, 0.95, "the robots"),
        (0.5, 0.2, 0.5, 0.1, 0.95, "the worker"),
        (0.5, 0.2, 0.5, 0.1, 0.5, "not the cores"),
    ],
)
def test_the_limit_is_what_was_busy(
    in_time: float, not_begun: float, thread: float, waited: float, worker: float, says: str
) -> None:
    busy = {"gateway": thread, "worker": worker}
    row = {
        "in_time": in_time,
        "not_begun": not_begun,
        "pictures": "rgb8",
        "busy_cores": busy,
        "busiest_thread": {"decides": thread},
        "waited_for_core": waited,
    }
    assert capacity.limit_of(row, thread).startswith(says)
    assert bool(capacity.limit_of(row, thread)) == bool(says)


def row(robots: int, asked_hz: float, limit: str = "", **other: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "robots": robots,
        "pictures": "jpeg",
        "welcome": robots,
        "asked_hz": asked_hz,
        "answered_hz": asked_hz,
        "p99_ms": 20.0 if asked_hz else None,
        "busy_cores": {"gateway": 0.1 + asked_hz / 5000},
        "gateway_mb": 80.0 + robots / 100,
        "gateway_mb_alone": 80.0,
        "limit": limit,
    }
    return made | other


def test_the_summary_takes_the_highest_rate_in_time() -> None:
    rows = [row(64, 0.0), row(64, 100.0), row(64, 200.0), row(64, 400.0, "the gateway's thread")]
    (found,) = capacity.summary(rows)
    assert (found["in_time_hz"], found["limit"], found["kb_per_robot"]) == (
        200.0,
        "the gateway's thread",
        10.0,
    )
    assert found["of_a_gigabit"] == round(200 * 60_000 / 125e6, 3)


def test_a_robot_that_is_not_welcome_and_a_card_that_is_not_full_are_missed_aims() -> None:
    rows = [row(64, 0.0, welcome=63), row(64, 100.0), row(64, 200.0, "all cores of this machine")]
    aims = capacity.judge(capacity.summary(rows))
    assert [aim["holds"] for aim in aims] == [False, True, False, True]
    full = capacity.judge(capacity.summary([row(64, 0.0), row(64, 2100.0), row(64, 4200.0, "?")]))
    assert [aim["holds"] for aim in full] == [True, True, True, True]
    busy = capacity.judge(capacity.summary([row(64, 0.0, busy_cores={"gateway": 0.6}), row(64, 100.0, "?")]))
    assert [aim["holds"] for aim in busy] == [True, False, False, True]


def test_without_decoding_the_next_limit_is_named() -> None:
    first, second = "the worker, which decodes the pictures", "the gateway's thread that decides"
    coded = [row(64, 0.0), row(64, 400.0), row(64, 800.0, first)]
    raw = [
        row(64, 0.0, pictures="rgb8"),
        row(64, 800.0, pictures="rgb8"),
        row(64, 1600.0, second, pictures="rgb8"),
    ]
    found = capacity.judge(capacity.summary(coded + raw))[-1]
    assert (found["value"], found["holds"]) == (f"64: 400/s, then 800/s, {second}", True)
    raw[1]["limit"] = second
    assert not capacity.judge(capacity.summary(coded + raw))[-1]["holds"]
