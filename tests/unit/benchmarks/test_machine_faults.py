"""Repetitions of faults of machines are collected over several runs, and the table says what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.faults import machine_faults
from benchmarks.faults.machine_faults import PAIR, ROSA, SERVE, aims_of, collected, kept, plan_of, rows_of
from rosa_sim.machines.faults import FAULTS, VERSION, Cost, Fault, FaultyMachines


class Rehearsal(FaultyMachines):
    """Every fault costs nothing; the second machine that is killed does not come back."""

    def __init__(self) -> None:
        super().__init__(16, Path())
        self.happened: list[tuple[str, int]] = []

    def ready(self) -> Any:
        return None

    def cost(self, fault: Fault, number: int) -> Cost:
        self.happened.append((fault.name, number))
        if (fault.name, number) == ("node", 2):
            raise TimeoutError("worker_ready did not happen within 120 s")
        return Cost(fault.name, 2.0 + number, 16, 0.4, 0.8, 0, 1 if fault.name == "gpu" else 0, 0, 0)


def row(part: str, what: str, number: int, **fields: Any) -> dict[str, Any]:
    cost = {"healed_s": 3.0, "median_s": 0.4, "worst_s": 0.8, "max_missed": 0, "others_missed": 0, "lost": 0}
    head = {"part": part, "what": what, "repetition": number, "version": VERSION, "load": 1.0}
    return {**head, **cost, **fields}


def aim(rows: list[dict[str, Any]], words: str) -> dict[str, Any]:
    (found,) = [one for one in aims_of(rows_of(rows)) if words in one["aim"]]
    return found


@pytest.fixture(autouse=True)
def _no_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_faults, "plot", lambda rows, path: None)


def test_a_second_run_measures_what_the_first_one_has_not_and_forgets_nothing(tmp_path: Path) -> None:
    stage, path = Rehearsal(), tmp_path / "machine_faults"
    served = row(SERVE, "worker", 1)
    first = collected([served], plan_of("rosa", 1, ["worker", "node"], stage), path)
    assert stage.happened == [("worker", 1), ("node", 1)] and first == kept(path)
    second = collected(kept(path), plan_of("rosa", 2, ["worker", "node"], stage), path)
    assert stage.happened[2:] == [("worker", 2), ("node", 2)]
    assert [(one["part"], one["what"], one["repetition"]) for one in second] == [
        (SERVE, "worker", 1),
        (ROSA, "worker", 1),
        (ROSA, "node", 1),
        (ROSA, "worker", 2),
        (ROSA, "node", 2),
    ]
    assert "failed" in second[-1] and second == kept(path)


def test_what_an_older_version_has_measured_is_measured_again(tmp_path: Path) -> None:
    stage = Rehearsal()
    old = row(ROSA, "worker", 1, version=VERSION - 1, healed_s=99.0)
    (new,) = collected([old], plan_of("rosa", 1, ["worker"], stage), tmp_path / "machine_faults")
    assert new["healed_s"] == 3.0 and new["version"] == VERSION


def test_the_repetitions_of_a_fault_are_one_row() -> None:
    rows = [row(ROSA, "node", n, healed_s=float(n), max_missed=10 if n == 2 else 0) for n in (1, 2, 3)]
    (found,) = rows_of([*rows, row(ROSA, "node", 4, failed="did not heal")])
    assert found["times"] == 4 and found["failed"] == 1
    assert found["healed_median_s"] == 2.0 and found["max_missed_by_one_robot"] == 10
    assert found["times_with_more_than_one"] == 1


def test_aims_are_missed_by_one_repetition() -> None:
    rows = [row(ROSA, "node", n) for n in range(1, 20)]
    assert aim(rows, "node: no robot misses more than 1")["holds"]
    worse = [*rows, row(ROSA, "node", 20, max_missed=10)]
    assert aim(worse, "node: no robot misses") == {
        "aim": "node: no robot misses more than 1 deadline",
        "value": "10, in 1 of 20",
        "holds": False,
    }
    assert not aim([*rows, row(ROSA, "node", 20, others_missed=2)], "nobody else")["holds"]
    assert not aim([*rows, row(ROSA, "node", 20, failed="no")], "no robot is lost")["holds"]


def test_twenty_of_each_are_wanted_and_it_says_which_are_missing() -> None:
    rows = [row(ROSA, one.name, n) for one in FAULTS for n in range(1, 21)]
    wanted = aim(rows, "20 repetitions")
    assert not wanted["holds"] and "Ray Serve: worker" in wanted["value"]
    rows += [row(SERVE, name, n, healed_s=10.0) for name in ("worker", "node") for n in range(1, 21)]
    assert not aim(rows, "20 repetitions")["holds"] and PAIR in aim(rows, "20 repetitions")["value"]
    rows += [row(PAIR, "gateway", n, max_missed=1) for n in range(1, 21)]
    assert aim(rows, "20 repetitions")["holds"]
    assert aim(rows, "robots that know two")["holds"]
    assert not aim([*rows, row(PAIR, "gateway", 21, max_missed=3)], "robots that know two")["holds"]
    assert not aim([*rows, row(PAIR, "gateway", 21, lost=1)], "robots that know two")["holds"]
    assert aim(rows, "worker: as before sooner")["holds"]
    assert not aim(rows[:-1], "20 repetitions")["holds"]
