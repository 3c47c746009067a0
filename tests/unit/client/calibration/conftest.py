"""Pictures are rendered once for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.unit.client.calibration import scenes
from tests.unit.client.calibration.scenes import Scene


@pytest.fixture(scope="session")
def lens_scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The board in all parts of the front camera's picture."""
    return scenes.fixed(tmp_path_factory.mktemp("lens"), scenes.LARGE, scenes.FAR_RAD, 30, 0.13)


@pytest.fixture(scope="session")
def front_scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The board in the hand, before the front camera."""
    return scenes.fixed(tmp_path_factory.mktemp("front"), scenes.SMALL, scenes.NEAR_RAD, 14, 0.06)


@pytest.fixture(scope="session")
def wrist_scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The board on the table, before the camera on the hand."""
    return scenes.on_hand(tmp_path_factory.mktemp("wrist"), scenes.SMALL, 14)
