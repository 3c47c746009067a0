"""What every system test gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.domains import own_domain


@pytest.fixture(scope="module", autouse=True)
def _ros_domain() -> Iterator[None]:
    """The ROS nodes of a file hear each other and nobody else."""
    with own_domain():
        yield
