"""A meter lets through its burst, then its rate, and what was overdrawn is waited for."""

from __future__ import annotations

import pytest

from rosa_server.frontends import limits
from rosa_server.frontends.limits import Entrance, Meter


def test_a_burst_passes_and_then_the_rate_holds() -> None:
    meter = Meter(rate=10.0, burst=2.0)
    passed, now_s = 0, 100.0
    while now_s < 110.0:
        if meter.wait_s(now_s) == 0:
            meter.spend(now_s, 1.0)
            passed += 1
        now_s += 0.01
    assert passed == pytest.approx(10 * 10 + 3, abs=2)


def test_what_was_overdrawn_is_waited_for() -> None:
    meter = Meter(rate=0.25, burst=0.5)
    meter.spend(5.0, 1.5)
    assert meter.wait_s(5.0) == pytest.approx(4.0) and meter.wait_s(9.0) == 0


def test_a_crowd_of_one_address_costs_another_no_connection() -> None:
    entrance = Entrance()
    for number in range(1000):
        entrance.accepted(0.0, number, ("10.0.0.1", number))
        entrance.passed(("10.0.0.1", number))
    assert entrance.accepted(0.0, "late", ("10.0.0.1", 1))[0] == "late"
    assert entrance.accepted(0.0, "other", ("10.0.0.2", 1)) == (None, "")


def test_the_oldest_in_its_handshake_makes_room() -> None:
    entrance = Entrance()
    for number in range(limits.MAX_PENDING):
        assert entrance.accepted(0.0, number, ("10.0.0.1", number))[0] is None
    entrance.passed(("10.0.0.1", 0))
    assert entrance.accepted(0.0, "next", ("10.0.0.1", 5000))[0] is None
    assert entrance.accepted(0.0, "one more", ("10.0.0.1", 5001))[0] == 1
