"""What cancelling saves is counted with the pipe's own decisions."""

from __future__ import annotations

from benchmarks.engines.cancelled_frames import measure


def test_nothing_is_decoded_for_nobody_and_the_others_get_what_that_saves() -> None:
    before, told = (measure(1.3, 0.4, way, 2000) for way in (False, True))
    assert before["tokens_for_nobody"] > 0.1 and told["tokens_for_nobody"] == 0.0
    assert told["answered_of_wanted"] > before["answered_of_wanted"]


def test_where_nothing_is_cancelled_there_is_nothing_to_save() -> None:
    before, told = (measure(1.3, 0.0, way, 500) for way in (False, True))
    assert before["answered_of_wanted"] == told["answered_of_wanted"] < 1.0
