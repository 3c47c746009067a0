"""Horizons, overlaps and tasks on the wire: what is impossible is refused at both ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.horizon import Horizon
from rosa_contract.wire.overlap import Overlap
from rosa_contract.wire.packing import pack
from rosa_contract.wire.progress import OUTCOMES, Progress
from tests.unit.contract.wire.samples import refused, request


def fields_of(frame: Any) -> dict[str, Any]:
    return {key: value for key, value in msgpack.unpackb(frame).items() if key != "#"}


@pytest.mark.parametrize(
    "entry",
    [
        "threshold",
        None,
        {"policy": "threshold", "t": 0.4, "most": 2},
        {"policy": "threshold", "min": 2},
        {"policy": "threshold", "t": float("nan"), "min": 2},
        {"policy": "threshold", "t": None, "min": 2},
        {"policy": "threshold", "t": 0.4, "min": 9, "max": 4},
        {"policy": "static", "steps": 0},
        {"policy": "static", "steps": 10**6},
        {"policy": "static", "steps": True},
        {"policy": "x" * 65},
        {"policy": ["static"], "steps": 8},
        {"steps": 8},
    ],
)
def test_a_request_with_an_impossible_horizon_policy_is_refused(entry: Any) -> None:
    frames = codec.encode(replace(request(), horizon=Horizon("static", steps=8)))
    with refused("bad_field", "^Request: horizon: |^Horizon: "):
        codec.decode([pack({**fields_of(frames[0]), "horizon": entry}), *frames[1:]])


@pytest.mark.parametrize(
    "changes",
    [
        {"horizon": -1},
        {"horizon": 2000},
        {"horizon": 8.0},
        {"horizon_reason": 5},
        {"horizon_reason": "x" * 301},
    ],
)
def test_an_output_with_an_impossible_horizon_is_refused(changes: Any) -> None:
    with refused("bad_field"):
        codec.decode_output(pack({"horizon": 8, "horizon_reason": "why", **changes}))


ROWS = np.zeros((3, 8), np.float32)


def packed_rows(rows: np.ndarray) -> list[Any]:
    return [rows.dtype.str, list(rows.shape), rows.tobytes()]


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        ([2, 0.05], "bad_field"),
        ([0, 0.05, packed_rows(ROWS)], "bad_field"),
        ([4, 0.05, packed_rows(ROWS)], "bad_field"),
        ([2, 0.0, packed_rows(ROWS)], "bad_field"),
        ([2, float("inf"), packed_rows(ROWS)], "bad_field"),
        ([2, 0.05, packed_rows(ROWS[0])], "bad_field"),
        ([2, 0.05, packed_rows(ROWS.astype(np.int32))], "bad_field"),
        ([2, 0.05, packed_rows(np.zeros((257, 8), np.float32))], "bad_field"),
        ([2, 0.05, packed_rows(np.zeros((3, 65), np.float32))], "bad_field"),
        ([2, 0.05, packed_rows(np.zeros((129, 64), np.float32))], "bad_field"),
        ([2, 0.05, packed_rows(np.full((3, 8), np.nan, np.float32))], "not_finite"),
        ([2, 0.05, ["<f4", [3, 8], b"short"]], "bad_array"),
    ],
)
def test_a_request_with_an_impossible_overlap_is_refused(entry: Any, cause: str) -> None:
    frames = codec.encode(request())
    overlap = dict(zip(("frozen", "step_s", "actions"), entry, strict=False))
    with refused(cause):
        codec.decode([pack({**fields_of(frames[0]), "overlap": overlap}), *frames[1:]])


def test_an_impossible_overlap_does_not_leave_the_robot() -> None:
    with refused("bad_field", "frozen rows"):
        codec.encode(replace(request(), overlap=Overlap(ROWS, 4, 0.05)))


@pytest.mark.parametrize(
    "entry",
    [
        3,
        [3, 0],
        [-1, 0, 0.0, ""],
        [3, 1.5, 0.0, ""],
        [3, True, 0.0, ""],
        [3, 1 << 63, 0.0, ""],
        [3, 0, -1.0, ""],
        [3, 0, 600_001.0, ""],
        [3, 0, float("nan"), ""],
        [3, 0, float("inf"), ""],
        [3, 0, 0.0, "x" * 129],
        [3, 0, 0.0, 7],
        [3, 0, 0.0, "", 0],
    ],
)
def test_a_request_with_an_impossible_progress_is_refused(entry: Any) -> None:
    frames = codec.encode(request())
    names = ("task", "round", "acts_ms", "kind", "more")
    progress = dict(zip(names, entry, strict=False)) if isinstance(entry, list) else entry
    with refused("bad_field"):
        codec.decode([pack({**fields_of(frames[0]), "progress": progress}), *frames[1:]])


def test_an_impossible_progress_does_not_leave_the_robot() -> None:
    with refused("bad_field", "kind"):
        codec.encode(replace(request(), progress=Progress(1, 0, 0.0, "x" * 129)))
    with refused("bad_field", "acts_ms"):
        codec.encode(replace(request(), progress=Progress(1, 0, float("nan"))))


def test_a_task_ends_in_one_of_the_known_ways() -> None:
    for outcome in OUTCOMES:
        assert codec.decode(codec.encode(m.TaskEnds(4, outcome))) == m.TaskEnds(4, outcome)
    with refused("bad_field", "outcome"):
        codec.encode(m.TaskEnds(4, "somehow"))
    [frame] = codec.encode(m.TaskEnds(4, "done"))
    for wrong in ({"outcome": "somehow"}, {"outcome": ["done"]}, {"task": -1}, {"task": True}):
        with refused("bad_field"):
            codec.decode([pack({**fields_of(frame), **wrong})])
