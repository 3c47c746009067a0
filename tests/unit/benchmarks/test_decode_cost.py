"""The benchmark of what decoding costs predicts with the planner's own times, and its worker decodes."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.transport import decode_cost
from rosa_server.scheduler.profiles.profile import CameraDecoding, Decoding


def test_it_predicts_with_the_times_that_a_plan_has() -> None:
    camera = CameraDecoding("front", 480, 640, 4.0)
    assert decode_cost.predicted_hz(20.0, Decoding((camera,), 8.0)) == pytest.approx(400.0)
    assert decode_cost.predicted_hz(20.0, Decoding((camera, camera), 2.0)) == pytest.approx(250.0)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [True, False])
def test_its_worker_decodes_and_answers_and_says_what_that_took(rows: bool) -> None:
    done = decode_cost.worked(5.0, 1, 0.1, rows)
    assert 0 < done.hz <= 1.05 * 1000 * decode_cost.BATCH / 5
    assert done.cpu_ms >= 0 and done.stack_ms > 0


def test_a_wrong_prediction_and_a_dearer_batch_are_missed_aims() -> None:
    row: dict[str, Any] = {"wrong": -0.05, "blind": 0.4}
    array = {"rows_cpu_ms": 20.0, "stacked_cpu_ms": 22.0, "rows_stack_ms": 0.1, "stacked_stack_ms": 0.9}
    assert [aim["holds"] for aim in decode_cost.judge([row], array)] == [True, True]
    assert [aim["holds"] for aim in decode_cost.judge([row, row | {"wrong": 0.11}], array)] == [False, True]
    assert not decode_cost.judge([row], array | {"rows_cpu_ms": 23.0})[1]["holds"]
