"""Paths of a trial: between rows, and how long a row may be."""

from __future__ import annotations

from math import inf, nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rosa_server.models.backend import ModelOutput
from rosa_server.trying.recordings import _chunk_moments
from rosa_server.trying.steps import Path, path_of


def test_a_path_is_a_line_between_rows_and_stays_at_its_ends() -> None:
    """Against numpy's own interpolation, column by column."""
    random = np.random.default_rng(3)
    for rows, slower in ((1, 1.0), (2, 3.0), (7, 0.4), (50, 1.0)):
        path = Path(random.normal(size=(rows, 4)), 0.05)
        times_s = np.concatenate([random.uniform(-0.1, 3.0, 40), path.times_s * slower])
        expected = [np.interp(times_s, path.times_s * slower, column) for column in path.rows.T]
        assert path.at(times_s, slower) == pytest.approx(np.stack(expected, axis=1), abs=1e-12)


@pytest.mark.parametrize("step_s", [0.0, -0.1, nan, inf])
def test_rows_of_no_time_or_of_an_endless_one_are_no_path(step_s: float) -> None:
    rows = np.zeros((3, 2))
    output = ModelOutput({"step_s": np.array([step_s], np.float32)})
    assert path_of(rows, output, None, 0.1) is None
    chunk = {"names": ["a", "b"], "data": rows.ravel(), "step_s": step_s}
    tracks: Any = SimpleNamespace(chunks=[(1.0, chunk), (2.0, {**chunk, "step_s": 0.1})], calls=[])
    assert [path.step_s for _, path in _chunk_moments(tracks, ["a", "b"])] == [0.1]
