"""Who listens is told once, whenever it is cancelled."""

from __future__ import annotations

import threading
import time

import pytest

from rosa_server.models.backend import ModelInput
from rosa_server.models.cancellation import Cancellation
from rosa_server.models.emulated import EmulatedBackend


def test_who_listens_is_told_once_and_who_comes_later_at_once() -> None:
    one, told = Cancellation(), []
    one.when(lambda: told.append("early"))
    assert not one.cancelled and told == []
    one.cancel()
    one.cancel()
    one.when(lambda: told.append("late"))
    assert one.cancelled and told == ["early", "late"]


def test_each_request_has_its_own() -> None:
    first, second = ModelInput("system1"), ModelInput("system1")
    first.cancellation.cancel()
    assert not second.cancellation.cancelled
    assert first == second


def test_the_emulated_model_drops_what_is_cancelled_and_the_others_get_on_the_faster() -> None:
    backend = EmulatedBackend(latency_ms=0, per_item_ms=60_000, at_once=2)
    one = ModelInput("system1")
    failed: list[Exception] = []

    def ask() -> None:
        try:
            backend.infer([one])
        except TimeoutError as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not len(backend._shared):
        time.sleep(0.001)
    one.cancellation.cancel()
    thread.join(timeout=10)
    assert len(failed) == 1 and len(backend._shared) == 0
    with pytest.raises(TimeoutError, match="cancelled"):  # and so does one that comes too late
        backend.infer([one])
