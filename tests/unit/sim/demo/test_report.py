"""The report of a run: numbers that people can read, who decided, and how every component kept its deadlines."""

from __future__ import annotations

import json
from pathlib import Path

from rosa_sim.demo import report

EPISODE = report.Episode(
    number=1,
    seed=900_000,
    outcome="done",
    truth="done",
    reason="the monitor says done",
    rounds=14,
    retries=0,
    system1_ms=[61.23456789, 62.0],
    deadlines_met=30,
    deadlines_missed=1,
    late_results_discarded=0,
    alerts=["slo_missed: 3 in a row"],
    decisions=["ada: resume (alert 7), accepted"],
    components={
        "monitor": {"p50_ms": 11.123456, "p99_ms": None, "slo_ms": 1000.0, "in_time": 16, "missed": 0}
    },
    duration_s=8.123456789,
)


def test_a_summary_has_no_more_digits_than_people_read(tmp_path: Path) -> None:
    whole = json.loads(report.write(tmp_path, [EPISODE], {"complete": True}).read_text())
    assert whole["rows"][0]["duration_s"] == 8.123
    assert whole["rows"][0]["system1_ms"] == [61.235, 62.0]
    assert whole["system1_p50_ms"] == 61.617


def test_a_summary_says_who_decided_and_how_the_monitor_did(tmp_path: Path) -> None:
    row = json.loads(report.write(tmp_path, [EPISODE], {}).read_text())["rows"][0]
    assert row["decisions"] == ["ada: resume (alert 7), accepted"]
    assert row["components"]["monitor"]["p50_ms"] == 11.123
    assert row["components"]["monitor"]["p99_ms"] is None


def test_one_is_one_episode() -> None:
    assert report.footer([EPISODE]).startswith("1 of 1 episode succeeded; ")
    assert report.footer([EPISODE, EPISODE]).startswith("2 of 2 episodes succeeded; ")
