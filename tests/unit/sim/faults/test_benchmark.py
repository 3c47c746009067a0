"""The benchmark of faults keeps what it measured, forgets what it is told to, and calls a missing fault a miss."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.faults import fault_table
from benchmarks.faults import faults as bench
from rosa_sim.faults.judge import Happened
from rosa_sim.faults.table import FAULTS


@pytest.fixture(autouse=True)
def _written_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "STORE", tmp_path)
    monkeypatch.setattr(fault_table, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(fault_table, "ROOT", tmp_path)


def entry(name: str, repetition: int, problems: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    seen = Happened(
        lasted_s=1.5,
        detected_s=0.8,
        cause="slo_missed",
        action="stop_and_resend",
        holding_s=0.81,
        stop_s=0.01,
        alert="",
        alerts=0,
        misses=2,
        late_commands=0,
        moved_rad=0.0,
        played_while_waiting=0,
        outcome="done",
        truth="done",
        calls_seen=20,
        recovered_s=0.3,
    )
    return {
        "fault": name,
        "repetition": repetition,
        "seen": {**asdict(seen), **changes},
        "problems": list(problems),
        "took_s": 8.0,
    }


def store(folder: Path, *entries: dict[str, Any], cell: int = 0) -> None:
    (folder / f"cell{cell}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in entries))


def test_what_two_cells_measured_is_found_and_only_what_is_wanted_anew_is_forgotten(tmp_path: Path) -> None:
    store(tmp_path, entry("link_drop", 1), entry("link_delay", 1))
    store(tmp_path, entry("link_drop", 2), cell=1)
    assert set(bench.stored()) == {("link_drop", 1), ("link_delay", 1), ("link_drop", 2)}
    bench.forget([("link_drop", 1), ("link_drop", 2)])
    assert set(bench.stored()) == {("link_delay", 1)}


def test_every_fault_belongs_to_one_group_of_a_bring_up() -> None:
    places = [place for group in bench.GROUPS for place in group]
    assert len(places) == len(set(places))
    assert {fault.place for fault in FAULTS.values()} == set(places)


def test_aims_hold_only_when_every_fault_was_tried_often_enough_and_kept_its_promise() -> None:
    entries = [entry(name, number) for name in FAULTS for number in (1, 2)]
    rows = bench.rows_of(entries)
    assert [row["fault"] for row in rows] == list(FAULTS)
    assert all(aim["holds"] for aim in bench.aims_of(rows, 2))
    part = bench.rows_of([entry("link_drop", number) for number in (1, 2)])
    assert bench.aims_of(part, 2)[0]["holds"] is None, "nobody can say of a part"
    bad = bench.rows_of([entry("link_drop", 1, ("the arm held late",)), entry("link_drop", 2)])
    assert bench.aims_of(bad, 2)[0]["holds"] is False
    assert not bench.aims_of(rows, 3)[0]["holds"], "two of three repetitions"
    assert not bench.aims_of(rows[1:], 2)[0]["holds"], "one fault was not tried"
    entries[0] = entry("link_drop", 1, ("the arm held late",))
    assert not bench.aims_of(bench.rows_of(entries), 2)[0]["holds"]
    entries[0] = entry("link_drop", 1, late_commands=1)
    assert not bench.aims_of(bench.rows_of(entries), 2)[1]["holds"]
    entries[0] = entry("link_drop", 1, still_s=0.5)
    assert [aim["holds"] for aim in bench.aims_of(bench.rows_of(entries), 2)] == [True] * 4 + [False]
    entries[0] = {"fault": "link_drop", "repetition": 1, "problems": ["the run broke off"], "took_s": 1.0}
    assert not any(aim["holds"] for aim in (bench.aims_of(bench.rows_of(entries), 2)[i] for i in (0, 2)))


def test_the_result_is_written_with_its_plot_and_without_nan(tmp_path: Path) -> None:
    nothing = {"detected_s": float("nan"), "stop_s": float("nan"), "holding_s": float("nan"), "cause": ""}
    entries = [entry(name, 1, **(nothing if name == "link_duplicate" else {})) for name in FAULTS]
    rows = bench.rows_of(entries)
    bench.write(rows, bench.aims_of(rows, 1), [bench.taken(rows, 3.0), "link_drop, repetition 1: a problem"])
    written = json.loads((tmp_path / "results" / "faults.json").read_text())
    assert {"name", "command", "machine", "date", "rows", "aims", "notes"} <= set(written)
    assert "link_drop, repetition 1: a problem" in written["notes"]
    assert (tmp_path / "results" / "faults.png").stat().st_size > 1000


def test_some_faults_measured_again_replace_their_rows_only(tmp_path: Path) -> None:
    rows = bench.rows_of([entry(name, 1) for name in FAULTS if name != "joint_jump"])
    bench.write(rows, bench.aims_of(rows, 1), ["the first time"])
    again = bench.rows_of([entry("joint_jump", 1, alerts=1), entry("link_drop", 1, ("too late",))])
    together, notes = bench.added(again, ["link_drop, repetition 1: too late"], 1.0)
    assert [row["fault"] for row in together] == list(FAULTS)
    assert [row["fault"] for row in together if not row["holds"]] == ["link_drop"]
    assert notes[0] == "the first time" and notes[-1] == "link_drop, repetition 1: too late"
    assert "joint_jump" in notes[1]
