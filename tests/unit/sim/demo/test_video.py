"""The video of a run: what is picked from what was seen, and what is written over it."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from rosa_sim.demo import video
from rosa_sim.demo.video import RATE_HZ, SIZE, Shot, resample, wrap


def shot(time_s: float, **fields: str) -> Shot:
    return Shot(time_s, 1, np.zeros(3), "episode 1 of 1", "executing", "note", **fields)


def seen(start_s: float, seconds: float) -> list[Shot]:
    """World states at 40 Hz."""
    return [shot(start_s + number / 40) for number in range(int(seconds * 40))]


def test_a_film_has_its_rate_whatever_that_of_the_shots() -> None:
    assert len(resample(seen(100.0, 10.0))) == pytest.approx(10 * RATE_HZ, abs=2)


def test_a_pause_between_episodes_is_not_filmed() -> None:
    assert len(resample(seen(100.0, 2.0) + seen(500.0, 2.0))) == pytest.approx(4 * RATE_HZ, abs=3)


def test_a_clock_that_jumps_ahead_and_back_loses_no_picture() -> None:
    jumped = seen(100.0, 2.0) + seen(132.0, 2.0) + seen(104.0, 2.0)
    assert len(resample(jumped)) == pytest.approx(6 * RATE_HZ, abs=4)


def test_a_long_alert_is_broken_into_lines_that_fit() -> None:
    text = "system1: no answer within 500 ms, 3 times in a row; nothing heard from the gateway for 3 s"
    lines = wrap(text, 300, 0.5)
    assert " ".join(lines) == text
    assert len(lines) > 1
    assert all(cv2.getTextSize(line, video.FONT, 0.5, 1)[0][0] <= 300 for line in lines)


class Gray:
    """A renderer without a scene."""

    def render(self, seed: int, qpos: np.ndarray) -> dict[str, np.ndarray]:
        sizes = {"overview": SIZE, "front": (video.INSET,) * 2, "wrist": (video.INSET,) * 2}
        return {name: np.full((size[1], size[0], 3), 120, np.uint8) for name, size in sizes.items()}


@pytest.mark.parametrize(
    ("fields", "colour"),
    [
        ({"fault": "server killed"}, video.DARK_AMBER),
        ({"alert": "arm_fault: motor 3"}, video.DARK_RED),
        ({"decided": "operator: resume"}, video.DARK_GREEN),
    ],
)
def test_a_fault_an_alert_and_a_decision_have_their_banner(
    fields: dict[str, str], colour: tuple[int, ...]
) -> None:
    def coloured(one: Shot) -> int:
        renderer: Any = Gray()
        picture = video.compose(renderer, one)
        return int((picture == colour).all(axis=2).sum())

    assert coloured(shot(0.0)) == 0
    assert coloured(shot(0.0, **fields)) > 5000
