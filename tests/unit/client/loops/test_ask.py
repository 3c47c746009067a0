"""What is told as not done is not done later; what is under way is waited for."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from rosa_client.loops.ask import answer_within


def test_an_answer_is_handed_on_and_so_is_what_the_call_raised() -> None:
    good: Future[str] = Future()
    good.set_result("accepted")
    assert answer_within(good, 1.0) == "accepted"
    bad: Future[str] = Future()
    bad.set_exception(ValueError("a task is running"))
    with pytest.raises(ValueError, match="a task is running"):
        answer_within(bad, 1.0)


def test_what_nobody_has_begun_is_withdrawn() -> None:
    asked: Future[str] = Future()
    with pytest.raises(TimeoutError):
        answer_within(asked, 0.01)
    assert not asked.set_running_or_notify_cancel(), "whoever serves it later leaves it alone"


def test_what_has_begun_is_waited_for() -> None:
    asked: Future[str] = Future()
    assert asked.set_running_or_notify_cancel()
    timer = threading.Timer(0.1, asked.set_result, ["done after all"])
    timer.start()
    try:
        assert answer_within(asked, 0.01) == "done after all"
    finally:
        timer.join()
