"""What the evaluation says: shares with intervals, and aims that are missed where nothing was counted."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_server.models.backend import ModelOutput
from rosa_sim.training.data.looks import HAND, KEYPOINTS
from rosa_sim.training.judge.episodes import JudgedLook, Trial
from rosa_sim.training.judge.evaluate_vla import (
    KINDS,
    MAX_SHARES,
    MIN_SHARES,
    SORTS,
    aims,
    episode_row,
    shows_hand,
)
from rosa_sim.training.judge.trials import share_row


def episode(seed, outcome):
    said = ["ongoing"] * 8 + ["done", "failed"]  # of ten looks that are all at an unfinished task
    looks = [JudgedLook("ongoing", False, {"monitor": ModelOutput(verdict=one)}) for one in said]
    return Trial(seed, "put the red block into the left bin", outcome, 9, 1, "", 4, 3, looks)


def rows(share):
    names = {*MIN_SHARES, *MAX_SHARES, *SORTS}
    return [{"what": name, "share": share(name)} for name in names]


def test_a_share_has_its_interval():
    row = share_row("x", 18, 20)
    assert (row["good"], row["of"], row["share"]) == (18, 20, 0.9)
    assert (row["low"], row["high"]) == pytest.approx((0.699, 0.972), abs=1e-3)
    assert share_row("x", 0, 0)["share"] is None


def test_a_row_keeps_the_episodes_to_look_at():
    found = [episode(2, "timeout"), episode(0, "done"), episode(1, "failed")]
    one = episode_row(KINDS[0].name, found)
    assert one["outcomes"] == {"timeout": 1, "done": 1, "failed": 1}
    assert [trial["seed"] for trial in one["not done"]] == [1, 2]
    assert one["monitor right"] == pytest.approx(24 / 30) and "plans right" not in one
    assert episode_row(SORTS[0], found)["plans right"] == pytest.approx(0.75)


def test_aims_hold_or_are_missed():
    good = {**dict.fromkeys(MIN_SHARES, 1.0), **dict.fromkeys(MAX_SHARES, 0.0)}
    best = aims(rows(lambda name: good.get(name, 0.2)))
    assert all(aim["holds"] for aim in best) and len(best) == len(MIN_SHARES) + len(MAX_SHARES) + 1
    assert not any(aim["holds"] for aim in aims(rows(lambda name: 0.5)))
    assert not any(aim["holds"] for aim in aims(rows(lambda name: None)))


def test_a_hand_is_shown_when_either_camera_shows_a_part_of_it():
    marks = {
        f"pixels_{camera}": np.zeros((4, len(KEYPOINTS), 3), np.float32) for camera in ("front", "wrist")
    }
    marks["pixels_front"][:, :HAND, 2] = 1  # blocks and bins do not count
    marks["pixels_front"][1, HAND, 2] = marks["pixels_wrist"][2:, HAND, 2] = 1
    assert shows_hand(marks).tolist() == [False, True, True, True]
