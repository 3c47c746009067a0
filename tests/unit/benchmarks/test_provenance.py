"""A table may be measured in several runs: rows stay until they are measured again, and say of which code they are."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import provenance
from benchmarks.fleet import fleet, fleet_policies


def head(robots: int) -> dict[str, Any]:
    return {"scenario": "p4", "system": "rosa", "robots": robots, "start": "random"}


@pytest.fixture(autouse=True)
def _code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "code", lambda: "new")


def test_rows_stay_until_they_are_measured_again() -> None:
    before = [{**head(8), "hz": 1.0, "commit": "old"}, {**head(16), "hz": 2.0, "commit": "new"}]
    plan = [(head(robots), lambda robots=robots: {"hz": float(robots)}) for robots in (8, 16, 32)]
    steps = list(provenance.measured(plan, before, lambda row: row["commit"] != "new"))
    assert [[row["hz"] for row in rows] for _, rows in steps] == [[8.0, 2.0], [8.0, 2.0, 32.0]]
    assert steps[0][0] == {**head(8), "hz": 8.0, "commit": "new"}


def test_rows_that_are_no_longer_planned_go() -> None:
    before = [{**head(64), "hz": 1.0}]
    ((_, rows),) = provenance.measured([(head(8), dict)], before, lambda row: True)
    assert [row["robots"] for row in rows] == [8]


def test_it_says_how_many_rows_are_of_another_commit() -> None:
    rows = [{"commit": "a"}, {"commit": "a"}, {"commit": "b"}, {}]
    assert provenance.measured_at(rows) == "Rows by commit: 2 at a, 1 at b, 1 at an earlier one."


@pytest.mark.parametrize(
    ("offs", "value", "holds"),
    [
        (
            {"a": 0.2, "b": -0.02},
            "2 of 2; lowest -2.0% at b, highest +20.0% at a; 1 within 3 % either way",
            True,
        ),
        (
            {"a": 0.0, "b": -0.04},
            "1 of 2; lowest -4.0% at b, highest +0.0% at a; 1 within 3 % either way",
            False,
        ),
    ],
)
def test_a_promise_is_broken_from_below_only(offs: dict[str, float], value: str, holds: bool) -> None:
    aim = fleet._not_below("aim", offs, 0.03)
    assert (aim["value"], aim["holds"]) == (value, holds)


@pytest.mark.parametrize("name", ["fleet", "fleet_policies"])
def test_no_two_rows_are_taken_for_one(name: str) -> None:
    plan = list(fleet.plan_of(2, 60.0) if name == "fleet" else fleet_policies.plan_of(None))
    keys = [provenance.key_of(row) for row, _ in plan]
    assert len(keys) == len(set(keys)) > 100
