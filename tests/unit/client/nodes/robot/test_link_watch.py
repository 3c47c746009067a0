"""A server that cannot be reached is named soon, then seldom; one that is there is not spoken of."""

from __future__ import annotations

from rosa_client.nodes.robot.link_watch import AGAIN_AFTER_S, SAY_AFTER_S, LinkWatch

AT = "tcp://gpu-box:5570"


def test_a_server_that_does_not_answer_is_named_within_seconds_and_then_seldom() -> None:
    watch = LinkWatch()
    assert watch.news(10.0, AT, False, "no answer") == ""
    assert watch.news(10.0 + SAY_AFTER_S, AT, False, "no answer") == f"no server at {AT} for 2 s: no answer"
    assert watch.news(11.0 + SAY_AFTER_S, AT, False, "no answer") == ""
    assert AT in watch.news(10.0 + SAY_AFTER_S + AGAIN_AFTER_S, AT, False, "no answer")


def test_a_server_that_is_back_in_time_is_not_spoken_of_and_the_time_counts_anew() -> None:
    watch = LinkWatch()
    watch.news(0.0, AT, False, "silent")
    assert watch.news(1.0, AT, True, "") == ""
    assert watch.news(1.5, AT, False, "silent") == ""
    assert watch.news(SAY_AFTER_S + 0.1, AT, False, "silent") == ""
    assert watch.news(1.5 + SAY_AFTER_S, AT, False, "silent") != ""
