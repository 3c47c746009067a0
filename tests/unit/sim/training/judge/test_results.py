"""A measurement of the shipped models says which aims it missed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from rosa_sim.training.judge.results import conclude

HELD = {"aim": "at least 95 % succeed", "value": 0.97, "holds": True}
MISSED = {"aim": "no wrong done", "value": 3, "holds": False}


def test_a_missed_aim_is_told_written_and_returned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    rows = [{"what": "success", "value": 0.97}]
    assert not conclude("policy", "evaluate", rows, [HELD, MISSED], time.monotonic(), folder)
    assert capsys.readouterr().out.splitlines() == [
        "holds   at least 95 % succeed: 0.970",
        "MISSED  no wrong done: 3",
    ]
    written = json.loads((folder / "policy.json").read_text())
    assert written["command"] == "python -m rosa_sim.training evaluate"
    assert (written["rows"], written["aims"]) == (rows, [HELD, MISSED])


def test_all_aims_held_is_a_success(tmp_path: Path) -> None:
    assert conclude("policy", "evaluate", [], [HELD], time.monotonic(), tmp_path)
