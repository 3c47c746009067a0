"""When a call of the Python client leaves, when it is over, and how."""

from __future__ import annotations

import threading
import time
from math import inf

import numpy as np
import pytest
import zmq

from rosa_client.connection.link import GatewayLink
from rosa_client.robot.calls import PendingCall, PendingCalls
from rosa_client.robot.errors import DeadlineMissed, RobotError
from rosa_client.robot.observation import Seen
from rosa_contract.wire.bounds import MAX_BUDGET_MS
from rosa_contract.wire.messages import Hello, Output, Request, Response, Welcome
from rosa_contract.wire.overlap import Overlap
from tests.unit.client.connection.test_link import HELLO, PATIENCE_S, Gateway, settle, until

SEEN = Seen({"joint_position": np.zeros(7, np.float32)}, {})
ACTIONS = Output({"actions": np.ones((4, 8), np.float32)}, horizon=2)


class Line:
    """A connection that a test moves."""

    def __init__(self, ready: bool = True) -> None:
        self.ready, self.cause, self.reason = ready, "no_answer", "nobody is there"
        self.refusals = 0
        self.rates_hz: dict[str, float] = {}
        self.catch_up = 0.0
        self.first_call_s: dict[str, float] = {}
        self.permit_s: dict[str, float] = {}
        self.permits: tuple[str, ...] = ()
        self.carries = True
        self.sent: list[Request] = []
        self.asked: list[str] = []
        self.cancelled: list[int] = []
        self.answers: list[Response] = []

    def send(self, request: Request, now_s: float) -> bool:
        if self.carries:
            self.sent.append(request)
        return self.carries

    def ask(self, component: str, now_s: float) -> bool:
        self.asked.append(component)
        return True

    def cancel(self, request_id: int, now_s: float) -> bool:
        self.cancelled.append(request_id)
        return True

    def answered(self, now_s: float, response: Response) -> None:
        self.answers.append(response)


def begun(calls: PendingCalls, now_s: float = 0.0, deadline_ms: float = 500) -> PendingCall:
    call = calls.begin(now_s, "system1", SEEN, "pick", deadline_ms)
    calls.step(call, now_s)
    return call


def cause_of(call: PendingCall) -> str:
    with pytest.raises(RobotError) as error:
        call.result()
    return error.value.cause


@pytest.mark.parametrize("deadline_ms", [3_600_000, inf])
def test_more_patience_than_a_request_can_tell_is_told_as_far_as_it_can(deadline_ms: float) -> None:
    line = Line()
    call = begun(PendingCalls(line, 30), deadline_ms=deadline_ms)
    (request,) = line.sent
    assert request.budget_ms == MAX_BUDGET_MS and not call.ended


def test_a_call_ends_with_the_answer_to_its_own_request() -> None:
    line = Line()
    calls = PendingCalls(line, 30)
    call = begun(calls)
    (request,) = line.sent
    assert (request.component, request.prompt, request.budget_ms) == ("system1", "pick", 500)
    calls.take(Response(request.request_id + 7, "ok", output=ACTIONS), 0.1)
    assert not call.ended
    calls.take(Response(request.request_id, "ok", batch_size=3, output=ACTIONS), 0.2)
    assert call.result().actions.shape == (4, 8) and call.result().steps == 2
    assert call.result().round_trip_ms == pytest.approx(200) and call.result().batch_size == 3


def test_what_the_robot_plays_meanwhile_goes_with_the_request_also_when_it_leaves_again() -> None:
    line = Line()
    calls = PendingCalls(line, 30)
    plays = Overlap(np.zeros((4, 8), np.float32), 2, 0.05)
    call = calls.begin(0.0, "system1", SEEN, "pick", 500, plays)
    calls.step(call, 0.0)
    line.ready = False
    calls.step(call, 0.1)
    line.ready = True
    calls.step(call, 0.2)
    assert [request.overlap for request in line.sent] == [plays, plays]
    calls.take(Response(line.sent[-1].request_id, "ok", output=ACTIONS), 0.3)
    assert call.result().steps == 2
    assert begun(calls, 0.4).overlap is None and line.sent[-1].overlap is None


def test_a_late_answer_is_never_taken_for_that_of_the_next_call() -> None:
    line = Line()
    calls = PendingCalls(line, 30)
    missed = begun(calls)
    calls.step(missed, 0.501)
    with pytest.raises(DeadlineMissed):
        missed.result()
    assert line.cancelled == [line.sent[0].request_id]
    following = begun(calls, 0.6)
    calls.take(Response(line.sent[0].request_id, "ok", output=ACTIONS), 0.7)
    assert not following.ended
    calls.take(Response(line.sent[1].request_id, "ok", output=ACTIONS), 0.8)
    assert following.answer is not None


def test_an_answer_that_comes_after_the_deadline_and_before_anybody_looked_is_late() -> None:
    line = Line()
    calls = PendingCalls(line, 30)
    call = begun(calls)
    calls.take(Response(line.sent[0].request_id, "ok", output=ACTIONS), 0.6)
    assert cause_of(call) == "deadline_missed"


def test_a_refusal_keeps_the_cause_of_the_server() -> None:
    line = Line()
    calls = PendingCalls(line, 30)
    call = begun(calls)
    calls.take(Response(line.sent[0].request_id, "overloaded", "queue_full", "1024 wait"), 0.1)
    assert cause_of(call) == "queue_full"


def test_the_first_call_waits_for_a_welcome_and_its_deadline_counts_from_sending() -> None:
    line = Line(ready=False)
    calls = PendingCalls(line, 30)
    call = begun(calls)
    calls.step(call, 20.0)
    assert not call.ended and not line.sent
    line.ready = True
    assert calls.step(call, 20.1) <= 20.6
    assert line.sent[0].budget_ms == pytest.approx(500)
    calls.step(call, 20.59)
    assert not call.ended
    calls.step(call, 20.61)
    assert cause_of(call) == "deadline_missed"


def test_nobody_waits_for_ever_for_a_welcome() -> None:
    calls = PendingCalls(Line(ready=False), 30)
    call = begun(calls)
    calls.step(call, 29.9)
    assert not call.ended
    calls.step(call, 30.0)
    assert cause_of(call) == "no_answer"


@pytest.mark.parametrize(
    ("cause", "ends"), [("unknown_task", True), ("not_admitted", True), ("not_ready", False)]
)
def test_a_refusal_ends_a_call_at_once_unless_a_welcome_may_follow_by_itself(cause: str, ends: bool) -> None:
    line = Line(ready=False)
    calls = PendingCalls(line, 30)
    line.refusals, line.cause = 1, cause  # of an earlier hello
    call = begun(calls)
    assert not call.ended
    line.refusals += 1
    calls.step(call, 0.1)
    assert call.ended == ends and (not ends or cause_of(call) == cause)


@pytest.mark.parametrize("cause", ["silent", "disconnected"])
def test_a_robot_that_was_welcomed_waits_for_a_lost_server_no_longer_than_its_deadline(cause: str) -> None:
    line = Line()
    calls = PendingCalls(line, 30)
    begun(calls)
    calls.take(Response(1, "ok", output=ACTIONS), 0.1)
    line.ready, line.cause = False, cause
    call = begun(calls, 10.0)
    calls.step(call, 10.51)
    assert cause_of(call) == cause


def test_what_left_on_a_session_that_is_over_leaves_again_with_what_remains_of_its_deadline() -> None:
    line = Line()
    calls = PendingCalls(line, 30)
    call = begun(calls)
    line.ready = False
    calls.step(call, 0.1)
    line.ready = True
    calls.step(call, 0.2)
    first, again = line.sent
    assert again.request_id != first.request_id and again.budget_ms == pytest.approx(300)
    calls.take(Response(first.request_id, "ok", output=ACTIONS), 0.3)
    assert not call.ended
    calls.take(Response(again.request_id, "ok", output=ACTIONS), 0.4)
    assert call.result().round_trip_ms == pytest.approx(400)


def test_what_was_under_way_when_the_server_was_started_anew_leaves_again() -> None:
    before, after = Gateway(), None
    link = GatewayLink(before.endpoint, HELLO)
    try:
        until(link, before, Hello)
        before.say(Welcome({}, token="of the one before"))
        settle(link, True)
        calls = PendingCalls(link, 30)
        call = begun(calls, time.monotonic(), deadline_ms=60_000)
        first = until(link, before, Request)
        before.close()
        after = Gateway(before.port)
        heard, end_s = None, time.monotonic() + PATIENCE_S
        while not isinstance(heard, Request):
            assert time.monotonic() < end_s, link.reason
            calls.step(call, time.monotonic())
            link.poll(0.005, time.monotonic())
            if isinstance(heard := after.heard(), Hello):
                after.say(Welcome({}, token="of its own"))
        assert isinstance(first, Request) and heard.request_id != first.request_id
        assert heard.budget_ms < 60_000, "what is left of its deadline"
        calls.take(Response(heard.request_id, "ok", output=ACTIONS), time.monotonic())
        assert call.result().steps == 2
    finally:
        link.close()
        for gateway in (before, after):
            if gateway is not None:
                gateway.close()


def test_a_new_session_that_begins_before_anybody_looks_does_not_keep_what_left_on_the_old_one() -> None:
    """As after a short break of the network: the gateway is there and welcomes at once, while the robot waits."""
    before = Gateway()
    link = GatewayLink(before.endpoint, HELLO)
    after: Gateway | None = None
    thread: threading.Thread | None = None
    heard: list[Request] = []
    ends = threading.Event()

    def serve(gateway: Gateway) -> None:
        while not ends.is_set():
            message = gateway.heard()
            if isinstance(message, Hello):
                gateway.say(Welcome({}))
            elif isinstance(message, Request):
                heard.append(message)

    try:
        until(link, before, Hello)
        before.say(Welcome({}))
        settle(link, True)
        calls = PendingCalls(link, 30)
        call = begun(calls, time.monotonic(), deadline_ms=60_000)
        until(link, before, Request)
        before.close()
        end_s = time.monotonic() + PATIENCE_S
        while link.socket.poll(0, zmq.POLLOUT):
            assert time.monotonic() < end_s, "the connection lasts"
        after = Gateway(before.port)
        thread = threading.Thread(target=serve, args=(after,))
        thread.start()
        assert link.socket.poll(PATIENCE_S * 1000, zmq.POLLOUT), (
            "it is connected again, and nobody has looked"
        )
        while not heard:
            now_s = time.monotonic()
            assert now_s < end_s, "the request left only on the session that is over"
            link.poll(calls.step(call, now_s) - now_s, now_s)
    finally:
        ends.set()
        if thread is not None:
            thread.join()
        link.close()
        for gateway in (before, after):
            if gateway is not None:
                gateway.close()


def test_what_cannot_leave_misses_its_deadline() -> None:
    line = Line()
    calls = PendingCalls(line, 30)
    begun(calls)
    calls.take(Response(1, "ok", output=ACTIONS), 0.1)
    line.carries = False
    call = begun(calls, 1.0)
    assert not call.ended
    calls.step(call, 1.6)
    assert cause_of(call) == "deadline_missed"


def test_a_rate_of_the_schedule_spaces_the_calls() -> None:
    line = Line()
    line.rates_hz = {"system1": 2.0}
    calls = PendingCalls(line, 30)
    begun(calls)
    calls.take(Response(1, "ok", output=ACTIONS), 0.1)
    call = begun(calls, 0.1)
    assert len(line.sent) == 1
    calls.step(call, 0.49)
    assert len(line.sent) == 1
    calls.step(call, 0.51)
    assert len(line.sent) == 2 and line.sent[1].budget_ms == pytest.approx(500)


def test_a_permit_lets_a_call_leave_before_its_turn() -> None:
    line = Line()
    line.rates_hz, line.permits = {"system1": 1.0}, ("system1",)
    calls = PendingCalls(line, 30)
    begun(calls)
    calls.take(Response(1, "ok", output=ACTIONS), 0.1)
    call = begun(calls, 0.2)
    assert line.asked == ["system1"] and len(line.sent) == 1
    line.permit_s = {"system1": 0.21}
    calls.step(call, 0.22)
    assert len(line.sent) == 2


def test_the_first_call_keeps_the_phase_that_the_server_gave() -> None:
    line = Line()
    line.first_call_s = {"system1": 0.3}
    calls = PendingCalls(line, 30)
    call = begun(calls)
    assert not line.sent
    calls.step(call, 0.3)
    assert len(line.sent) == 1


def test_a_component_is_called_once_at_a_time() -> None:
    calls = PendingCalls(Line(), 30)
    begun(calls)
    with pytest.raises(RobotError) as error:
        begun(calls)
    assert error.value.cause == "call_in_flight"


def test_a_cancelled_call_is_cancelled_at_the_server_and_makes_room_for_the_next() -> None:
    line = Line()
    calls = PendingCalls(line, 30)
    call = begun(calls)
    calls.cancel(call, 0.1)
    assert line.cancelled == [line.sent[0].request_id] and cause_of(call) == "cancelled"
    assert not begun(calls, 0.2).ended
