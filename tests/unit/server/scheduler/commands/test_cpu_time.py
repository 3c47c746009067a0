"""The clock that counts what is computed: waiting is skipped while nothing is, and takes time while something is."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from rosa_server.scheduler.commands.cpu_time import Counted, CpuTime


class Machine:
    """Computes only while somebody waits, and only as long as it is told to."""

    def __init__(self) -> None:
        self.computed_s = 0.0
        self.waits = 0

    def wait(self, seconds: float) -> None:
        self.waits += 1
        self.computed_s += seconds / 2  # the other half of the core belongs to others


def test_an_idle_wait_is_skipped() -> None:
    machine = Machine()
    time = CpuTime(lambda: machine.computed_s, machine.wait)
    time.sleep(100.0)
    assert time.clock() == pytest.approx(100.0)
    assert machine.waits == 0


def test_while_a_call_is_under_way_time_is_what_it_computes() -> None:
    machine = Machine()
    time = CpuTime(lambda: machine.computed_s, machine.wait)
    call: Future[None] = Future()
    time.watch(call)
    time.sleep(1.0)
    assert machine.computed_s == pytest.approx(1.0)
    call.set_result(None)
    time.sleep(1.0)
    assert machine.computed_s == pytest.approx(1.0)
    assert time.clock() == pytest.approx(2.0)


def test_calls_of_an_executor_are_known_until_they_are_answered() -> None:
    machine, answered = Machine(), Event()

    def wait(seconds: float) -> None:
        machine.wait(seconds)
        if machine.computed_s >= 0.5:
            answered.set()
            made.result(timeout=10)

    time = CpuTime(lambda: machine.computed_s, wait)
    with ThreadPoolExecutor(1) as pool:
        made = Counted(pool, time).submit(answered.wait, 10)
        time.sleep(50.0)
    assert 0.5 <= machine.computed_s < 1.0, "then nothing was left to compute, and the rest was skipped"
    assert time.clock() == pytest.approx(50.0)
