"""A robot that knows several gateways: it stays with one while that serves, and finds another one when it is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_client.connection.gateways import WELCOMES_WITHIN_S, KnownGateways
from rosa_client.connection.link import GatewayLink
from rosa_client.connection.session_token import SessionToken
from rosa_contract.endpoint import gateways_of, gateways_problem
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from tests.unit.client.connection.test_link import HELLO, PATIENCE_S, Gateway, settle, until


def test_a_gateway_that_served_is_left_at_once_and_one_that_never_did_after_a_while() -> None:
    gateways = KnownGateways(["a", "b", "c"])
    assert not gateways.turns(0.0, False, "no_answer") and gateways.next_turn_s() == WELCOMES_WITHIN_S
    assert gateways.turns(WELCOMES_WITHIN_S, False, "no_answer") and gateways.current == "b"
    assert not gateways.turns(3.0, True, "") and not gateways.turns(99.0, True, "")
    assert gateways.turns(100.0, False, "disconnected") and gateways.current == "c"
    assert not gateways.turns(100.1, False, "no_answer"), "it has its time"
    assert gateways.turns(100.0 + WELCOMES_WITHIN_S, False, "no_answer") and gateways.current == "a"


@pytest.mark.parametrize("cause", ["hello_required", "robot_id_taken", "not_admitted"])
def test_a_gateway_that_refuses_has_time_to_welcome(cause: str) -> None:
    gateways = KnownGateways(["a", "b"])
    gateways.turns(0.0, True, "")
    assert not gateways.turns(1.0, False, cause)
    assert gateways.turns(1.0 + WELCOMES_WITHIN_S, False, cause)


def test_a_robot_that_a_person_has_removed_looks_for_no_other_gateway_and_one_gateway_is_never_left() -> None:
    both = KnownGateways(["a", "b"])
    both.turns(0.0, True, "")
    assert not any(both.turns(second, False, "removed") for second in range(100))
    alone = KnownGateways(["a"])
    assert not any(alone.turns(second, False, "silent") for second in range(100))


def test_what_stands_between_commas_is_an_endpoint_each() -> None:
    assert gateways_of("tcp://a:1, tcp://b:2") == ("tcp://a:1", "tcp://b:2")
    assert gateways_problem("tcp://a:1,tcp://b:2") == "" == gateways_problem("tcp://a:1")
    assert "named twice" in gateways_problem("tcp://a:1,tcp://a:1")
    assert "tcp://HOST:PORT" in gateways_problem("tcp://a:1,") and "port" in gateways_problem(
        "tcp://a:1,tcp://b:0"
    )


@pytest.fixture
def pair() -> Iterator[tuple[Gateway, Gateway]]:
    first, second = Gateway(), Gateway()
    yield first, second
    first.close()
    second.close()


def hello_to(link: GatewayLink, gateway: Gateway) -> m.Hello:
    heard = until(link, gateway, m.Hello)
    assert isinstance(heard, m.Hello)
    return heard


def test_when_its_gateway_ends_a_robot_is_with_the_next_one_and_has_that_ones_token(
    pair: tuple[Gateway, Gateway], tmp_path: Path
) -> None:
    first, second = pair
    both = f"{first.endpoint},{second.endpoint}"
    folder = tmp_path / "tokens"
    link = GatewayLink(both, HELLO, token=SessionToken(folder, both, "panda0"))
    try:
        assert hello_to(link, first).token == ""
        first.say(m.Welcome({"system1": "policy"}, {"system1": 1.5}, token="ofthefirst"))
        settle(link, True)
        first.close()
        heard = hello_to(link, second)
        assert heard.robot_id == HELLO.robot_id and heard.task == HELLO.task and heard.token == ""
        assert not link.ready and link.cause == "disconnected" and link.endpoint == second.endpoint
        second.say(m.Welcome({"system1": "policy"}, {"system1": 2.5}, token="ofthesecond"))
        settle(link, True)
        assert link.rates_hz == {"system1": 2.5}

        again = Gateway(first.port)
        try:
            second.close()
            assert hello_to(link, again).token == "ofthefirst", "its place is kept under its own token"
        finally:
            again.close()
        kept = SessionToken(folder, second.endpoint, "panda0")
        assert kept.load() == "ofthesecond", "for a process that is started anew"
    finally:
        link.close()


def test_a_gateway_that_does_not_answer_is_not_waited_for(pair: tuple[Gateway, Gateway]) -> None:
    first, second = pair
    link = GatewayLink(f"{first.endpoint},{second.endpoint}", HELLO)
    try:
        began_s = time.monotonic()
        assert until(link, first, m.Hello) == HELLO, "it hears, and says nothing"
        link.poll(0.0, began_s + WELCOMES_WITHIN_S + 1)
        assert link.endpoint == second.endpoint and second.endpoint not in link.reason
        assert hello_to(link, second) == HELLO
        second.say(m.Welcome({}))
        settle(link, True)
    finally:
        link.close()


def test_a_gateway_whose_name_zeromq_refuses_is_passed_over(pair: tuple[Gateway, Gateway]) -> None:
    first, second = pair
    link = GatewayLink(f"{first.endpoint},tcp://gpu-böx:5570,{second.endpoint}", HELLO)
    try:
        now_s = time.monotonic()
        for later in range(4):
            link.poll(0.0, now_s + later * (WELCOMES_WITHIN_S + 0.1))
            if link.endpoint == second.endpoint:
                break
        assert link.endpoint == second.endpoint
        hello_to(link, second)
    finally:
        link.close()


def test_no_answer_of_a_gateway_that_was_left_reaches_the_robot(pair: tuple[Gateway, Gateway]) -> None:
    first, second = pair
    link = GatewayLink(f"{first.endpoint},{second.endpoint}", HELLO)
    try:
        hello_to(link, first)
        first.say(m.Welcome({}))
        settle(link, True)
        assert link.send(m.Request(5, "system1", 100.0), time.monotonic())
        until(link, first, m.Request)
        first.say(m.Refused("not_ready", "the server is shutting down"))
        end_s = time.monotonic() + PATIENCE_S
        while link.endpoint == first.endpoint:
            assert time.monotonic() < end_s
            link.poll(0.005, time.monotonic())
        first.say(m.Response(5, m.EXPIRED, "budget_spent", "too late"))
        first.say(m.Refused("hello_required", "say hello"))
        hello_to(link, second)
        second.say(m.Welcome({}))
        assert settle(link, True) == []
        for _ in range(20):
            assert link.poll(0.005, time.monotonic()) == [] and link.ready
    finally:
        link.close()


def test_it_says_hello_as_soon_as_the_next_gateway_is_connected_and_looks_often(
    pair: tuple[Gateway, Gateway],
) -> None:
    first, second = pair
    link = GatewayLink(f"{first.endpoint},{second.endpoint}", HELLO)
    try:
        hello_to(link, first)
        first.say(m.Welcome({}))
        settle(link, True)
        now_s = time.monotonic()
        link.poll(0.0, now_s)
        assert link.next_due_s() <= now_s + 0.1, "a loop that waits for the socket hears nothing of its end"
        first.close()
        heard: m.Message | None = None
        end_s = time.monotonic() + PATIENCE_S
        while not isinstance(heard, m.Hello):
            assert time.monotonic() < end_s
            link.poll(
                0.005, now_s
            )  # time stands still: no second passes after which it would say hello again
            heard = second.heard()
    finally:
        link.close()


# -- gateways that it learns of ----------------------------------------------------------------------------------------


def test_the_gateways_of_one_schedule_are_learned_and_the_one_that_serves_stays() -> None:
    gateways = KnownGateways(["here", "elsewhere"])
    gateways.turns(0.0, True, "")
    assert gateways.learn(["here as it names itself", "b", "c"]) and gateways.current == "here"
    assert not gateways.learn(["here as it names itself", "b", "c"]), "no news"
    assert gateways.shares("here", "b") and not gateways.shares("here", "elsewhere")
    order = []
    for second in (10.0, 20.0, 30.0, 40.0):
        assert gateways.turns(second, False, "disconnected")
        order.append(gateways.current)
    assert set(order) == {"b", "c", "elsewhere", "here"}
    assert KnownGateways(["alone"]).learn(["alone"]) is False


def test_a_gateway_that_is_left_alone_with_its_schedule_is_known_once() -> None:
    gateways = KnownGateways(["here", "elsewhere"])
    gateways.turns(0.0, True, "")
    assert gateways.learn(["here", "b"]) and gateways.learn(["here"])
    assert len(gateways) == 3 and not gateways.shares("here", "b")
    assert gateways.turns(10.0, False, "disconnected") and gateways.current == "b"
    assert gateways.turns(20.0, False, "no_answer") and gateways.current == "elsewhere"
    assert gateways.turns(30.0, False, "no_answer") and gateways.current == "here"


def test_a_token_counts_with_every_gateway_of_its_schedule_whoever_told_of_it() -> None:
    gateways = KnownGateways(["a", "elsewhere", "b", "c"])

    def goes_on(left_with: str, kept: str = "") -> tuple[str, str]:
        before = gateways.current
        gateways.turns(0.0, True, "")  # so that its turn comes at once
        assert gateways.turns(0.0, False, "disconnected")
        return gateways.current, gateways.token(before, left_with, kept)

    assert goes_on("proof") == ("elsewhere", ""), "nobody has said that it is of the same schedule"
    assert goes_on("", "kept") == ("b", "kept"), "from an earlier life"
    assert goes_on("kept") == ("c", "")
    gateways.learn(["c", "b", "a"])  # by the refusal of one that was greeted without a token
    assert goes_on("") == ("b", "kept")
    assert goes_on("newer") == ("a", "newer")
    assert goes_on("newer") == ("elsewhere", "")
    assert goes_on("") == ("c", "newer")


def test_a_proof_that_another_gateway_was_greeted_with_counts_here_too() -> None:
    gateways = KnownGateways(["a", "b", "c"])
    for _ in range(2):
        before = gateways.current
        gateways.turns(0.0, True, "")
        assert gateways.turns(0.0, False, "disconnected")
        greeted = gateways.token(before, "proof" if before == "a" else "")
    assert (gateways.current, greeted) == ("c", "")
    gateways.learn(["c", "b", "a"])
    gateways.turns(0.0, True, "")
    assert gateways.turns(0.0, False, "disconnected")
    assert gateways.current == "b" and gateways.token("c", "") == "proof"


def test_a_robot_that_was_told_one_gateway_goes_to_another_one_of_its_schedule_with_its_token(
    pair: tuple[Gateway, Gateway], tmp_path: Path
) -> None:
    first, second = pair
    folder = tmp_path / "tokens"
    link = GatewayLink(first.endpoint, HELLO, token=SessionToken(folder, first.endpoint, "panda0"))
    try:
        hello_to(link, first)
        first.say(m.Welcome({}, token="ofitsslot", gateways=(first.endpoint, second.endpoint)))
        settle(link, True)
        first.close()
        assert hello_to(link, second).token == "ofitsslot", "and with it its slot"
        second.say(m.Welcome({}, token="ofitsslot", gateways=(second.endpoint, first.endpoint)))
        settle(link, True)
        assert link.endpoint == second.endpoint
        kept = SessionToken(folder, second.endpoint, "panda0")
        assert kept.load() == "ofitsslot", "for a process that is started anew, wherever it begins"
    finally:
        link.close()


def test_a_robot_for_which_there_is_no_room_goes_to_the_gateway_that_it_is_told_of(
    pair: tuple[Gateway, Gateway], tmp_path: Path
) -> None:
    first, second = pair
    kept = SessionToken(tmp_path, second.endpoint, "panda0")
    kept.keep("ofthesecond")
    link = GatewayLink(first.endpoint, HELLO, token=SessionToken(tmp_path, first.endpoint, "panda0"))
    try:
        hello_to(link, first)
        full = m.Refused("admission_off", "all slots are taken", (first.endpoint, second.endpoint))
        first.say(full)
        assert hello_to(link, second).token == "ofthesecond", (
            "a gateway that refuses has no other token for it"
        )
        second.say(m.Welcome({}, token="ofthesecond"))
        settle(link, True)
        assert kept.load() == "ofthesecond"
    finally:
        link.close()


def test_without_keys_a_robot_keeps_its_slot_at_the_gateways_that_it_was_told_of() -> None:
    here, there = "tcp://192.0.2.1:5570", "tcp://192.0.2.2:5570"  # documentation addresses: nobody answers
    link = GatewayLink(f"{here},{there}", HELLO)
    try:
        now_s = time.monotonic()
        link.heard(now_s)
        link._read(
            [bytes(one) for one in codec.encode(m.Welcome({}, token="ofitsslot", gateways=(here, there)))]
        )
        link.poll(0.0, now_s)
        assert link.ready
        link.lost("silent", "nothing heard")
        link.poll(0.0, now_s)
        assert (link.endpoint, link.hello.token) == (there, "ofitsslot")
    finally:
        link.close()


@pytest.mark.parametrize("other", ["tcp://10.0.0.9:5570", "tcp://127.0.0.1:0", "nonsense", "tcp://[x:5570"])
def test_without_keys_no_gateway_is_learned_that_is_not_on_this_machine(
    other: str, pair: tuple[Gateway, Gateway]
) -> None:
    first, _ = pair
    link = GatewayLink(first.endpoint, HELLO)
    try:
        hello_to(link, first)
        first.say(m.Welcome({}, gateways=(first.endpoint, other)))
        settle(link, True)
        first.close()
        end_s = time.monotonic() + PATIENCE_S
        now_s = time.monotonic()
        while link.ready:
            assert time.monotonic() < end_s
            now_s += 0.5  # as if time flew
            link.poll(0.0, now_s)
        for later in range(10):
            link.poll(0.0, now_s + later * WELCOMES_WITHIN_S)
        assert link.endpoint == first.endpoint
    finally:
        link.close()
