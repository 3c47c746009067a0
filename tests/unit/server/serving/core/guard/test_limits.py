"""Every row of the table of limits: what is allowed is borne, and one more is cut off with the cause of the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields, replace
from typing import Any

import pytest

from rosa_server.serving.core.guard.connections import Connections
from rosa_server.serving.core.guard.limits import CAUSES, OFFENCES, Limits, limits_for, rows
from rosa_server.serving.core.guard.peers import Close

# Every limit so wide that none but the one of the row is ever met.
WIDE = replace(
    Limits(),
    **{
        row.name: 10**9
        for row in fields(Limits)
        if row.name not in ("first_wait_s", "longest_wait_s", "calm_after_s")
    },
)
SMALL = {  # a value for the row that is quick to exceed; the others keep their own
    "connections": 20,
    "connections_per_address": 20,
    "strangers": 20,
    "strangers_per_address": 20,
    "successors": 20,
}
Step = Callable[["Door", float], None]


class Door:
    """A clock and its connections; what is cut off is gone at once."""

    def __init__(self, limits: Limits) -> None:
        self.it, self.now_s, self.closes = Connections(limits), 100.0, list[Close]()
        self._next = 0

    def do(self, closes: list[Close]) -> None:
        self.closes += closes
        for close in closes:
            self.it.closed(close.key)
        self.it.check()

    def connect(self, address: str = "10.0.0.1") -> int:
        self._next += 1
        self.do(self.it.accepted(self._next, address, 1, self.now_s))
        return self._next

    def robot(self, address: str = "10.0.0.1") -> int:
        key = self.connect(address)
        self.do(self.it.heard(key, 100, 0.0, 0.0, self.now_s))
        self.it.welcomed(key, f"r{key}", 1000)
        return key


def each_from_elsewhere(door: Door, count: float) -> None:
    for index in range(int(count)):
        door.robot(f"10.0.{index // 250}.{index % 250}")


def all_from_one(door: Door, count: float) -> None:
    for _ in range(int(count)):
        door.robot()


def strangers_from_elsewhere(door: Door, count: float) -> None:
    for index in range(int(count)):
        door.connect(f"10.0.{index // 250}.{index % 250}")


def strangers_from_one(door: Door, count: float) -> None:
    for _ in range(int(count)):
        door.connect()


def succeed(door: Door, count: float) -> None:
    door.robot()
    all_from_one(door, count)
    door.do(door.it.tick(door.now_s))


def stay_silent(door: Door, seconds: float) -> None:
    door.connect()
    door.now_s += seconds
    door.do(door.it.tick(door.now_s))


def hold(who: Callable[[Door], int], spare: int = 0) -> Step:
    return lambda door, count: door.do(door.it.received(who(door), int(count) + spare, door.now_s))


def hold_together(who: Callable[[Door, int], int], spare: int = 0) -> Step:
    def run(door: Door, count: float) -> None:
        keys = [who(door, index) for index in range(4)]
        for index, key in enumerate(keys):
            share = int(count) // 4 + spare + (int(count) % 4 if index == 0 else 0)
            door.do(door.it.received(key, share, door.now_s))

    return run


def leave_unread(who: Callable[[Door], int]) -> Step:
    def run(door: Door, count: float) -> None:
        key = who(door)
        door.do(door.it.answers(key, 1, door.now_s))
        door.do(door.it.answers(key, int(count) - 1, door.now_s))

    return run


def leave_unread_together(door: Door, count: float) -> None:
    for index in range(4):
        share = int(count) // 4 + (int(count) % 4 if index == 0 else 0)
        door.do(door.it.answers(door.robot(f"10.0.0.{index}"), share, door.now_s))


def read_nothing(door: Door, seconds: float) -> None:
    key = door.robot()
    door.do(door.it.answers(key, 10, door.now_s))
    door.now_s += seconds
    door.do(door.it.tick(door.now_s))


def spend(who: Callable[[Door, int], int], per_s: bool) -> Step:
    """At the rate for a hundred seconds, or all at once."""

    def run(door: Door, amount: float) -> None:
        keys = [who(door, index) for index in range(4)]
        for step in range(100 if per_s else 1):
            door.now_s += 1.0 if per_s else 0.0
            door.do(door.it.heard(keys[step % 4], 100, amount, 0.0, door.now_s))

    return run


def be_bad(per_s: bool) -> Step:
    def run(door: Door, amount: float) -> None:
        key = door.robot()
        for _ in range(100 if per_s else 1):
            door.now_s += 1.0 if per_s else 0.0
            door.do(door.it.heard(key, 100, 0.0, amount, door.now_s))

    return run


def stranger(door: Door) -> int:
    return door.connect()


def robot(door: Door) -> int:
    return door.robot()


def strangers(door: Door, index: int) -> int:
    return door.connect(f"10.0.0.{index}")


def robots(door: Door, index: int) -> int:
    return door.robot(f"10.0.0.{index}")


def one_stranger(door: Door, _: int) -> int:
    return 1 if len(door.it) else door.connect()


def one_robot(door: Door, _: int) -> int:
    return 1 if len(door.it) else door.robot()


# limit -> (how much of it is taken, the smallest excess that counts)
EXCEEDED: dict[str, tuple[Step, float]] = {
    "connections": (each_from_elsewhere, 1),
    "connections_per_address": (all_from_one, 1),
    "strangers": (strangers_from_elsewhere, 1),
    "strangers_per_address": (strangers_from_one, 1),
    "successors": (succeed, 1),
    "hello_within_s": (stay_silent, 0.1),
    "stranger_bytes": (hold(stranger), 1),
    "strangers_bytes": (hold_together(strangers), 1),
    "welcomed_bytes": (hold(robot, spare=2 * 1000 + 100), 1),
    "all_bytes": (hold_together(robots, spare=1000 + 100), 1),
    "stranger_unread": (leave_unread(stranger), 1),
    "robot_unread": (leave_unread(robot), 1),
    "all_unread": (leave_unread_together, 1),
    "unread_for_s": (read_nothing, 0.1),
    "robot_time": (spend(one_robot, per_s=True), 0.05),
    "robot_burst_s": (spend(one_robot, per_s=False), 0.01),
    "address_time": (spend(one_stranger, per_s=True), 0.05),
    "address_burst_s": (spend(one_stranger, per_s=False), 0.01),
    "strangers_time": (spend(strangers, per_s=True), 0.05),
    "strangers_burst_s": (spend(strangers, per_s=False), 0.01),
    "bad_per_s": (be_bad(per_s=True), 1.0),
    "bad_burst": (be_bad(per_s=False), 1.0),
}
# How long an address waits: `test_connections.py` counts the seconds.
WAITS = {"first_wait_s", "longest_wait_s", "calm_after_s"}


def limited(row: Field[Any]) -> Limits:
    """Wide, but for this row; a rate comes with what may be taken at once, and is only exceeded in the long run."""
    own = SMALL.get(row.name, row.default)
    bursts = {"robot_time": "robot_burst_s", "address_time": "address_burst_s"}
    bursts |= {"strangers_time": "strangers_burst_s", "bad_per_s": "bad_burst"}
    changes = {row.name: own}
    if row.name in bursts:
        changes[bursts[row.name]] = getattr(Limits, bursts[row.name])
    return replace(WIDE, **changes)


@pytest.mark.parametrize(
    "row", [row for row in rows() if row.name not in WAITS], ids=lambda row: str(row.name)
)
def test_what_is_allowed_is_borne_and_more_is_cut_off_with_its_cause(row: Field[Any]) -> None:
    take, excess = EXCEEDED[row.name]
    limits = limited(row)
    allowed = Door(limits)
    take(allowed, getattr(limits, row.name))
    assert allowed.closes == []
    exceeded = Door(limits)
    take(exceeded, getattr(limits, row.name) + excess)
    assert {close.cause for close in exceeded.closes} == {row.metadata["cause"]}


def test_every_limit_has_its_test_and_every_cause_its_words() -> None:
    assert {row.name for row in rows()} == EXCEEDED.keys() | WAITS
    assert {row.metadata["cause"] for row in rows()} == CAUSES.keys() - {"key_revoked"}
    assert set(OFFENCES) < set(CAUSES)


@pytest.mark.parametrize("descriptors", [64, 1024, 4096, 20_000, 1 << 20])
def test_limits_fit_the_descriptors(descriptors: int) -> None:
    limits = limits_for(descriptors)
    assert 2 * limits.connections <= max(32, descriptors - 256)
    assert (
        0
        < limits.strangers_per_address
        < limits.strangers
        < limits.connections_per_address
        < limits.connections
    )
    assert limits.connections >= 1900 or descriptors <= 4096
