"""`random_factories` goes on where it was interrupted, and does single factories again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.fleet import random_factories
from benchmarks.fleet.random_factories import VERSION, aims_of, numbers, present_alone, to_do
from rosa_sim.fleet.random_bench import Executed, Judged, disturbances

OLD, PRESENT = VERSION - 1, VERSION
ONE_TASK: Any = SimpleNamespace(robot_fleet=[SimpleNamespace(task="pick")])
NAMES = list(disturbances(ONE_TASK))


def row(seed: int, version: int = PRESENT, meet: float = 1.0) -> dict[str, Any]:
    """A factory that was served, with `meet` of its calls in time."""
    runs = {name: Executed(10.0, 10.0, meet, "system1") for name in NAMES}
    return Judged(
        seed, 8, 4, limit_hz=12.0, predicted_hz=10.0, planned_hz=9.0, runs=runs, version=version
    ).plain()


ROWS = [row(0, OLD), row(1), row(5, OLD)]


@pytest.mark.parametrize(
    ("resume", "renew", "expected"),
    [(False, False, [0, 1, 2, 3]), (True, False, [2, 3]), (True, True, [2, 3, 0])],
)
def test_what_is_there_is_kept_and_what_is_old_done_again_last(
    resume: bool, renew: bool, expected: list[int]
) -> None:
    assert to_do(ROWS, range(4), resume, renew) == expected


def test_seeds_are_done_again_even_where_they_are_there() -> None:
    assert to_do(ROWS, numbers("5,1,7"), False, False) == [5, 1, 7]
    assert to_do(ROWS, numbers("5,1,7"), True, True) == [7, 5], "with --resume only what is missing or old"


def test_other_factories_stay_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tmp_path / "random_factories.json"
    result.write_text(json.dumps({"rows": ROWS}))
    monkeypatch.setattr(random_factories, "RESULT", result)
    monkeypatch.setattr(
        random_factories, "judged", lambda seed, seconds: Judged(seed, 8, 4, refused="too many")
    )
    monkeypatch.setattr("sys.argv", ["random_factories", "--seeds", "1,7"])
    assert random_factories.main() == 0
    written = json.loads(result.read_text())
    assert [each["seed"] for each in written["rows"]] == [0, 1, 5, 7]
    assert [each["refused"] for each in written["rows"]] == ["", "too many", "", "too many"]
    assert any("Interrupted: 4 of 200" in note for note in written["notes"])


def test_what_the_present_version_reaches_is_said_apart_from_older_ones() -> None:
    late, rows = row(0, OLD, meet=0.5), [row(1), row(2)]
    name = "every component in time in 99 % of calls, in 98 %"
    aims = {aim["aim"]: aim for aim in aims_of([late, *rows])}
    assert (aims[name]["value"], aims[name]["holds"]) == ("2 of 3", False)
    [note] = present_alone([late, *rows])
    assert note.startswith(f"Version {VERSION} alone, 2 factories") and f"{name}: 2 of 2" in note
    assert not present_alone(rows) and not present_alone([late]), "nothing is said twice"
