"""The calls of the Python client: when each may leave, when it is over, and how. Pure: time is an argument.

A call waits for the server's welcome, and for its turn where a schedule bounds the rate; its deadline counts from when
it leaves. A call that was under way when the session was lost leaves again within its deadline. An answer belongs to
one request: one that comes after its deadline is dropped, whatever is asked meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Protocol

from rosa_client.robot.answer import Answer, answer_of
from rosa_client.robot.errors import DeadlineMissed, RobotError
from rosa_client.robot.observation import Seen
from rosa_client.runtime.calls import ComponentCalls, Ending
from rosa_contract.config.tasks import GOAL_COUPLED, Component
from rosa_contract.errors import CodecError
from rosa_contract.wire.bounds import MAX_BUDGET_MS
from rosa_contract.wire.messages import OK, REFUSALS, Request, Response
from rosa_contract.wire.overlap import Overlap

AGAIN_S = 0.02  # when what could not leave is tried again
ASK_EVERY_S = 0.05  # a permit, until it comes
PASSES = (
    "not_ready",
    "hello_required",
    "robot_id_taken",
)  # refusals after which a welcome may follow by itself
MAX_WAIT_S = 0.2  # longer than this nobody sleeps without a look at the connection


class CallLine(Protocol):
    """What a call has to know of the connection (`connection/link.py`)."""

    ready: bool
    cause: str
    reason: str
    refusals: int
    rates_hz: dict[str, float]
    catch_up: float
    first_call_s: dict[str, float]
    permit_s: dict[str, float]

    @property
    def permits(self) -> Collection[str]: ...
    def send(self, request: Request, now_s: float) -> bool: ...
    def ask(self, component: str, now_s: float) -> bool: ...
    def cancel(self, request_id: int, now_s: float) -> bool: ...
    def answered(self, now_s: float, response: Response) -> None: ...


class PendingCall:
    """One call of a component. `answer` or `error` is set when it has ended."""

    def __init__(
        self,
        turns: ComponentCalls,
        seen: Seen,
        prompt: str,
        deadline_ms: float,
        give_up_s: float,
        overlap: Overlap | None = None,
    ) -> None:
        """`give_up_s`: when to stop waiting for a welcome."""
        self.turns, self.seen, self.prompt, self.overlap = turns, seen, prompt, overlap
        self.deadline_ms, self.give_up_s = deadline_ms, give_up_s
        self.refusals = 0  # of the connection, before this call
        self.first_sent_s = self.deadline_s = inf
        self.answer: Answer | None = None
        self.error: RobotError | None = None

    @property
    def ended(self) -> bool:
        return self.answer is not None or self.error is not None

    def result(self) -> Answer:
        """What came of it. Raises `RobotError`."""
        if self.answer is None:
            assert self.error is not None, "the call has not ended"
            raise self.error
        return self.answer


class PendingCalls:
    """All calls of one robot, at most one per component at a time."""

    def __init__(self, line: CallLine, connect_within_s: float) -> None:
        """`connect_within_s`: how long the first call waits for a welcome, as models take their time to load."""
        self._line, self._connect_within_s = line, connect_within_s
        self._turns: dict[str, ComponentCalls] = {}
        self._open: dict[str, PendingCall] = {}  # by component
        self._requests = 0
        self._welcomed = False

    def begin(
        self,
        now_s: float,
        component: str,
        seen: Seen,
        prompt: str,
        deadline_ms: float,
        overlap: Overlap | None = None,
    ) -> PendingCall:
        """A new call; `step` it at once. Raises `RobotError` (`call_in_flight`)."""
        if component in self._open:
            words = f"{component} is being called; wait for its answer, or cancel the call"
            raise RobotError("call_in_flight", words)
        turns = self._turns.setdefault(component, ComponentCalls(component, Component("", deadline_ms)))
        self._welcomed |= self._line.ready
        patience_s = deadline_ms / 1000 if self._welcomed else max(self._connect_within_s, deadline_ms / 1000)
        self._open[component] = call = PendingCall(
            turns, seen, prompt, deadline_ms, now_s + patience_s, overlap
        )
        call.refusals = self._line.refusals
        return call

    def step(self, call: PendingCall, now_s: float) -> float:
        """Do what is due for a call; returns when to come again, unless something arrives."""
        turns, line = call.turns, self._line
        if call.ended:
            return now_s
        if now_s > call.deadline_s:
            self._missed(call, now_s)
            return now_s
        if turns.in_flight and line.ready:
            return min(call.deadline_s, now_s + MAX_WAIT_S)
        if turns.in_flight:  # it left on a session that is over
            turns.cancel(now_s)
        if not line.ready:
            for_good = line.refusals > call.refusals and line.cause in REFUSALS and line.cause not in PASSES
            if for_good or now_s >= call.give_up_s:
                self._end(call, RobotError(line.cause, line.reason))
            return min(call.give_up_s, call.deadline_s, now_s + MAX_WAIT_S)
        self._welcomed = True
        due_s = self._turn_s(turns, now_s)
        if now_s < due_s:
            call.give_up_s = now_s + call.deadline_ms / 1000  # it waits for its turn, not for the server
            return min(due_s, call.deadline_s, now_s + MAX_WAIT_S)
        return self._send(call, now_s)

    def take(self, response: Response, now_s: float) -> None:
        """An answer has come."""
        self._line.answered(now_s, response)
        for turns in self._turns.values():
            ending = turns.answer(response.request_id, now_s)
            if ending is Ending.UNKNOWN:
                continue
            call = self._open.get(turns.name)
            if ending is Ending.LATE or call is None:
                return
            if now_s > call.deadline_s:
                self._missed(call, now_s)
            elif response.status == OK and response.output is not None:
                turns.succeed(now_s)
                call.answer = answer_of(response, response.output, (now_s - call.first_sent_s) * 1000)
                self._forget(call)
            else:
                turns.miss(now_s)
                self._end(call, RobotError(response.cause, f"{response.status}: {response.reason}"))
            return

    def cancel(self, call: PendingCall, now_s: float) -> None:
        """Nobody waits for this call any more."""
        if call.ended:
            return
        if (number := call.turns.request_id) is not None:
            self._line.cancel(number, now_s)
            call.turns.cancel(now_s)
        self._end(call, RobotError("cancelled", "the caller waits no more"))

    def _send(self, call: PendingCall, now_s: float) -> float:
        turns, line = call.turns, self._line
        first = call.first_sent_s == inf
        deadline_s = now_s + call.deadline_ms / 1000 if first else call.deadline_s
        self._requests += 1
        budget_ms, seen = min((deadline_s - now_s) * 1000, MAX_BUDGET_MS), call.seen
        request = Request(
            self._requests,
            turns.name,
            budget_ms,
            call.prompt,
            seen.state,
            seen.images,
            overlap=call.overlap,
        )
        try:
            left = line.send(request, now_s)
        except CodecError as error:
            self._end(call, RobotError("bad_observation", str(error)))
            return now_s
        if not left:
            if now_s >= call.give_up_s:
                self._missed(call, now_s)
            return min(now_s + AGAIN_S, call.deadline_s)
        if first:
            call.first_sent_s, call.deadline_s = now_s, deadline_s
        call.give_up_s = deadline_s
        permitted = self._permitted(turns)
        turns.send(self._requests, now_s, self._period_s(turns.name), line.catch_up, permitted)
        turns.deadline_s = deadline_s
        return min(deadline_s, now_s + MAX_WAIT_S)

    def _turn_s(self, turns: ComponentCalls, now_s: float) -> float:
        """When the schedule lets this call leave; asks for a permit where the server gives any."""
        if self._permitted(turns):
            return now_s
        line = self._line
        due_s = turns.next_turn_s(self._period_s(turns.name), line.catch_up)
        first_s = line.first_call_s.get(turns.name, -inf)
        if not turns.sent:
            due_s = first_s
        if now_s >= due_s or now_s < first_s or turns.name not in line.permits:
            return due_s
        if now_s >= turns.asked_s + ASK_EVERY_S and line.ask(turns.name, now_s):
            turns.ask(now_s)
        return min(due_s, now_s + ASK_EVERY_S)

    def _permitted(self, turns: ComponentCalls) -> bool:
        return self._line.permit_s.get(turns.name, -inf) >= turns.asked_s > -inf

    def _period_s(self, component: str) -> float:
        rate_hz = self._line.rates_hz.get(component, 0.0) if component in GOAL_COUPLED else 0.0
        return 1 / rate_hz if rate_hz > 0 else 0.0

    def _missed(self, call: PendingCall, now_s: float) -> None:
        if (number := call.turns.request_id) is not None:
            self._line.cancel(number, now_s)
            call.turns.miss(now_s)
        why = "" if self._line.ready else f"; {self._line.reason}"
        self._end(call, DeadlineMissed(f"{call.turns.name}: no answer within {call.deadline_ms:g} ms{why}"))

    def _end(self, call: PendingCall, error: RobotError) -> None:
        call.error = error
        self._forget(call)

    def _forget(self, call: PendingCall) -> None:
        if self._open.get(call.turns.name) is call:
            del self._open[call.turns.name]
