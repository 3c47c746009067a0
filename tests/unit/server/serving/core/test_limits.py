"""Bounds of the robots' connections that follow from the descriptors of the process."""

from __future__ import annotations

import pytest

from rosa_server.serving.core.limits import CAUSES, OFFENCES, limits_for


@pytest.mark.parametrize("descriptors", [64, 1024, 4096, 20_000, 1 << 20])
def test_limits_fit_the_descriptors(descriptors: int) -> None:
    limits = limits_for(descriptors)
    assert 2 * limits.connections <= max(32, descriptors - 256)
    assert 0 < limits.silent_per_address < limits.silent < limits.connections_per_address < limits.connections
    assert limits.connections >= 1900 or descriptors <= 4096


def test_every_cause_is_told() -> None:
    assert set(OFFENCES) < set(CAUSES)
