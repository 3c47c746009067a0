"""Who is cut off, why, and who is not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.serving.core.guard import connections as module
from rosa_server.serving.core.guard.connections import Connections
from rosa_server.serving.core.guard.limits import OFFENCES, Limits
from rosa_server.serving.core.guard.peers import Close

LIMITS = Limits()


class Door:
    """Connections with keys that count up, and a record of who was cut off. A socket that is cut off closes at once."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.it = Connections(limits)
        self.now_s = 50.0
        self.closes: list[Close] = []
        self._next = 0

    def do(self, closes: list[Close]) -> None:
        self.closes += closes
        for close in closes:
            self.it.closed(close.key)
        self.it.check()

    def connect(self, address: str = "10.0.0.1") -> int:
        self._next += 1
        self.do(self.it.accepted(self._next, address, 1000 + self._next, self.now_s))
        return self._next

    def robot(self, name: str = "r1", address: str = "10.0.0.1", largest: int = 100_000) -> int:
        key = self.connect(address)
        self.hear(key)
        self.it.welcomed(key, name, largest)
        self.it.check()
        return key

    def hear(self, key: int, size: int = 100, spent_s: float = 1e-4, bad: float = 0.0) -> None:
        self.do(self.it.heard(key, size, spent_s, bad, self.now_s))

    def hear_all(self, keys: list[int]) -> None:
        """One small message of each; the books are checked once, after the last."""
        closes = [close for key in keys for close in self.it.heard(key, 100, 1e-4, 0.0, self.now_s)]
        self.do(closes)

    def receive(self, key: int, count: int) -> None:
        self.do(self.it.received(key, count, self.now_s))

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.do(self.it.tick(self.now_s))

    def causes(self) -> list[str]:
        return [close.cause for close in self.closes]


def test_who_says_nothing_is_cut_off_after_ten_seconds_and_who_speaks_is_not() -> None:
    door = Door()
    silent, polite = door.connect(), door.connect()
    for _ in range(30):
        door.wait(1.0)
        door.hear(polite)
    assert [(close.key, close.cause) for close in door.closes] == [(silent, "no_hello")]
    assert door.closes[0].address == "10.0.0.1" and door.closes[0].port == 1001


def test_what_nobody_can_read_is_no_word() -> None:
    door = Door()
    key = door.connect()
    for _ in range(20):
        door.wait(1.0)
        door.hear(key, bad=1.0)
    assert door.causes() == ["no_hello"]


def test_a_robot_that_falls_silent_becomes_a_stranger_and_may_still_say_hello() -> None:
    door = Door()
    key = door.robot()
    door.wait(10.5)
    assert door.causes() == []
    door.receive(key, 90_000)
    assert not door.it.is_robot(key)
    door.hear(key, 90_000)
    door.it.welcomed(key, "r1", 100_000)
    assert door.it.is_robot(key)


def test_a_message_without_end_is_cut_off_and_bytes_that_are_delivered_never_are() -> None:
    door = Door()
    honest, endless = door.connect("10.0.0.2"), door.connect()
    come = 0
    for _ in range(100):
        come += 200_000
        door.receive(honest, come)
        door.hear(honest, 200_000)
        door.wait(0.02)
    assert door.causes() == []
    door.receive(endless, LIMITS.stranger_bytes)
    assert door.causes() == []
    door.receive(endless, LIMITS.stranger_bytes + 1)
    assert [(close.key, close.cause) for close in door.closes] == [(endless, "held_bytes")]


def test_delivered_bytes_are_counted_from_above_and_give_no_credit() -> None:
    door = Door()
    key = door.connect()
    for _ in range(1000):
        door.hear(key, 10_000, spent_s=0.0)
        door.receive(key, 100)
    door.receive(key, LIMITS.stranger_bytes + 10_101)
    assert door.causes() == ["held_bytes"]


def test_a_robot_may_send_two_of_its_largest_requests_before_anybody_reads_them() -> None:
    door = Door()
    key = door.robot(largest=5_000_000)
    door.receive(key, 10_000_000)
    assert door.causes() == []
    door.receive(key, 10_000_000 + LIMITS.welcomed_bytes + 200)
    assert door.causes() == ["held_bytes"]


def test_many_strangers_together_are_bounded_and_robots_do_not_pay_for_them() -> None:
    door = Door()
    robot = door.robot(largest=5_000_000)
    door.receive(robot, 9_000_000)
    for index in range(100):
        door.receive(door.connect(f"10.0.1.{index}"), 200_000)
    assert set(door.causes()) == {"held_in_all"}
    assert robot not in {close.key for close in door.closes}
    assert door.it.held_bytes <= LIMITS.strangers_bytes + 9_000_000


def test_all_robots_together_may_hold_a_largest_request_each_and_no_more_than_the_rest() -> None:
    door = Door()
    robots = [door.robot(f"r{index}", f"10.0.2.{index}", 1_000_000) for index in range(200)]
    for key in robots:
        door.receive(key, 1_000_000)
    assert door.causes() == []
    for key in robots:
        door.receive(key, 2_000_000)
    assert set(door.causes()) == {"held_in_all"}
    assert door.it.held_bytes <= 64 * 2**20 + 1_000_000 * 200


def test_the_longest_silent_of_an_address_makes_room_for_the_newest() -> None:
    door = Door()
    idle = [door.connect() for _ in range(LIMITS.strangers_per_address)]
    polite = door.connect()
    assert [(close.key, close.cause) for close in door.closes] == [(idle[0], "too_many_connections")]
    door.hear(polite)
    for _ in range(LIMITS.strangers_per_address - 1):
        door.connect()
    assert polite not in {close.key for close in door.closes}


def test_strangers_that_speak_are_bounded_apart_from_robots() -> None:
    door = Door(replace(LIMITS, connections=100, strangers=30, strangers_per_address=20))
    robots = [door.robot(f"r{index}") for index in range(40)]
    for index in range(60):
        door.hear(door.connect(f"10.0.1.{index % 3}"))
    assert set(door.causes()) == {"too_many_connections"} and len(door.closes) == 30
    assert door.it.strangers == 30
    assert not set(robots) & {close.key for close in door.closes}


def test_no_address_takes_the_place_of_the_others() -> None:
    limits = replace(
        LIMITS, connections=100, connections_per_address=75, strangers=50, strangers_per_address=25
    )
    door = Door(limits)
    for _ in range(200):
        door.hear(door.connect("10.0.0.1"))
    for _ in range(200):
        door.connect("10.0.0.1")
    assert len(door.it) <= 75
    robots = [door.robot(f"r{index}", f"10.0.3.{index}") for index in range(25)]
    assert not set(robots) & {close.key for close in door.closes}


def test_a_thousand_robots_may_come_at_once_from_one_address() -> None:
    door = Door()
    keys = [door.connect() for _ in range(1000)]
    for index, key in enumerate(keys):
        door.now_s += 2e-4
        door.hear(key, spent_s=2e-4)
        door.it.welcomed(key, f"r{index}", 100_000)
    for _ in range(100):
        door.wait(0.1)
        door.hear_all(keys)
    assert door.causes() == []


def test_time_is_counted_per_robot_and_per_address_of_strangers() -> None:
    door = Door()
    robot, other = door.robot("r1"), door.robot("r2", "10.0.0.2")
    for _ in range(20):
        door.wait(0.05)
        door.hear(robot, spent_s=0.06)
        door.hear(other, spent_s=0.01)
    assert [(close.key, close.cause, close.robot) for close in door.closes] == [
        (robot, "handling_time", "r1")
    ]
    door = Door()
    for _ in range(20):
        key = door.connect()
        door.wait(0.05)
        door.hear(key, spent_s=0.06)
    assert "handling_time" in door.causes()


def test_five_unreadable_messages_per_second_are_borne_and_more_are_not() -> None:
    door = Door()
    key = door.robot()
    for _ in range(200):
        door.wait(0.2)
        door.hear(key, bad=1.0)
        door.hear(key)
    assert door.causes() == []
    for _ in range(100):
        door.wait(0.01)
        door.hear(key, bad=1.0)
    assert door.causes() == ["bad_messages"]


def test_an_address_waits_longer_each_time_and_its_robots_stay() -> None:
    door = Door()
    robot = door.robot()
    waits = []
    for _ in range(8):
        key = door.connect()
        assert door.closes == [] or door.closes[-1].key != key, "it waited long enough"
        door.hear(key, bad=1e6)
        began_s = door.now_s
        while (
            door.connect() and door.closes[-1].cause == "address_waits" and door.closes[-1].key == door._next
        ):
            door.now_s += 0.25
            door.hear(robot)
            assert door.now_s < 1000
        waits.append(door.now_s - began_s)
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
    assert robot not in {close.key for close in door.closes}
    assert isinstance(door.connect("10.0.0.9"), int)
    assert door.closes[-1].address == "10.0.0.1"


def test_an_address_that_was_calm_for_a_minute_begins_anew() -> None:
    door = Door()
    for _ in range(3):
        door.hear(door.connect(), bad=1e6)
        door.now_s += 5.0
    door.wait(61.0)
    door.hear(door.connect(), bad=1e6)
    door.connect()
    assert door.causes().count("address_waits") == 0


def test_a_robot_that_reads_what_it_asked_for_is_kept() -> None:
    door = Door()
    key, given = door.robot(), 0
    for _ in range(500):
        for _ in range(5):
            given += 100_000
            door.do(door.it.answers(key, 100_000, door.now_s))
        assert door.it.took(key, given - 50_000, door.now_s), "some is still unread"
        door.hear(key)
        door.wait(0.1)
    assert door.causes() == []
    assert door.it.unread_bytes == 50_000
    assert not door.it.took(key, given, door.now_s)


def test_an_answer_larger_than_the_limit_is_sent_where_nothing_is_unread() -> None:
    door = Door()
    key = door.robot()
    door.do(door.it.answers(key, 3 * LIMITS.robot_unread, door.now_s))
    assert door.causes() == []
    assert not door.it.has_room(key, 1)
    door.do(door.it.answers(key, 1, door.now_s))
    assert door.causes() == ["unread_answers"]
    assert door.it.unread_bytes == 0, "what was cut off counts no more"


def test_a_robot_behind_a_broken_link_is_no_offender() -> None:
    door = Door()
    for _ in range(3):
        key = door.robot()
        door.do(door.it.answers(key, 1000, door.now_s))
        for _ in range(11):
            door.hear(key)
            door.wait(1.0)
    assert door.causes() == ["not_reading"] * 3
    assert not any(cause in OFFENCES for cause in door.causes())


def test_who_is_succeeded_by_too_many_is_cut_off() -> None:
    it = Connections(replace(LIMITS, successors=100))
    for key in (1, 101, 102):
        it.accepted(key, "10.0.0.1", 5, 0.0)
    assert [(close.key, close.cause) for close in it.tick(1.0)] == [(1, "too_old")]


def test_what_comes_from_who_was_cut_off_is_ignored_until_it_closes() -> None:
    it = Connections()
    it.accepted(1, "10.0.0.1", 5, 0.0)
    assert [close.cause for close in it.heard(1, 10, 0.0, 1e6, 0.0)] == ["bad_messages"]
    assert it.is_cut(1)
    assert it.heard(1, 10, 9.0, 1e6, 0.0) == it.received(1, 10**9, 0.0) == it.tick(100.0) == []
    it.closed(1)
    assert not it.is_cut(1) and len(it) == 0
    it.check()


def test_a_revoked_robot_is_cut_off_without_blame_on_its_address() -> None:
    door = Door()
    key = door.robot()
    door.do(door.it.revoke(key, door.now_s))
    assert [(close.key, close.cause, close.robot) for close in door.closes] == [(key, "key_revoked", "r1")]
    door.connect()
    assert door.causes() == ["key_revoked"]


def test_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ADDRESSES", 50)
    door = Door()
    for index in range(500):
        door.hear(door.connect(f"10.1.{index // 250}.{index % 250}"), bad=1e6)
    door.wait(1.0)
    assert len(door.it._addresses) == 50
    door.wait(100.0)
    assert len(door.it._addresses) == 0


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_the_books_are_right_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    door = Door(
        replace(LIMITS, connections=40, connections_per_address=30, strangers=20, strangers_per_address=10)
    )
    alive: list[int] = []
    for _ in range(200):
        key = chance.choice(alive) if alive and chance.random() < 0.8 else 0
        if not key:
            alive.append(door.connect(f"10.0.0.{chance.randrange(4)}"))
            continue
        what = chance.randrange(9)
        if what == 0:
            door.receive(key, chance.randrange(600_000))
        elif what == 1:
            door.hear(
                key, chance.randrange(100_000), chance.random() / 50, chance.choice((0.0, 0.0, 1.0, 1e6))
            )
        elif what == 2:
            door.it.welcomed(key, f"r{key}", chance.randrange(1_000_000))
        elif what == 3:
            door.it.left(key)
        elif what == 4:
            door.it.closed(key)
        elif what == 5:
            door.do(door.it.answers(key, chance.randrange(50_000), door.now_s))
        elif what == 6:
            door.it.took(key, chance.randrange(200_000), door.now_s)
        elif what == 7:
            door.do(door.it.overflows(key, door.now_s))
        else:
            door.wait(chance.random() * 3)
        door.it.check()
    for key in alive:
        door.it.closed(key)
    door.it.check()
    assert len(door.it) == 0 == door.it.held_bytes == door.it.unread_bytes == door.it.strangers
