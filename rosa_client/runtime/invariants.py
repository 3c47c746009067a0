"""The robot's promises (DESIGN, "Invariants"), each defined once.

`of_state` looks at a core between two events. `Books` looks at nothing but what goes in and comes out, since asking a
core whether it did right would pass whatever it believes. The exhaustive search (`rosa_sim/explore`), chaos, the
property tests and the judge of injected faults all ask here.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import NamedTuple

from rosa_client.runtime.commands import (
    Alert,
    CallEnded,
    Command,
    Hold,
    MoveTo,
    Play,
    RecoverArm,
    Send,
    TaskEnded,
)
from rosa_client.runtime.machines.side_machines import MAY_INFER, RETURN_IS_OWED, Safety
from rosa_client.runtime.machines.task_machine import MOVES, State
from rosa_client.runtime.mission import Mission
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import AHEAD, ASYNCHRONOUS, GOAL_COUPLED, SAFETY, SYSTEM1, SYSTEM2, Task
from rosa_contract.fallbacks import FallbackAction, fallback
from rosa_contract.wire.messages import OK, Response

ENDS_ONCE = "ends_once"  # every call ends exactly once: in time, missed or cancelled
NOTHING_LATE = "nothing_late"  # no chunk from a late, cancelled or repeated answer
STOP_WITHIN_A_PERIOD = "stop_within_a_period"  # what stops the arm stops it within one control period
STILL_AFTER_ESCALATION = "still_after_escalation"  # nothing moves between an alert and its decision
NOTHING_OUT_OF_RANGE = "nothing_out_of_range"
ALERT_OPEN = "alert_open"  # an alert is open exactly while a human is waited for
ORDER_FITS = "order_fits"  # the newest order fits the state
NO_OLD_PICTURE = "no_old_picture"  # no call is open whose answer shows what is over
HELD_STAYS = "held_stays"  # what holds the robot keeps it from everything but the move to the safe pose
DANGER_STOPS = "danger_stops"  # safety comes before every motion
LIMITS_HOLD = "limits_hold"  # what happens too often in a row calls a human
RULES = (
    ENDS_ONCE,
    NOTHING_LATE,
    STOP_WITHIN_A_PERIOD,
    STILL_AFTER_ESCALATION,
    NOTHING_OUT_OF_RANGE,
    ALERT_OPEN,
    ORDER_FITS,
    NO_OLD_PICTURE,
    HELD_STAYS,
    DANGER_STOPS,
    LIMITS_HOLD,
)

ROUNDING_S = 0.0021  # times of a simulated clock, and the step in which a simulated robot asks its core again

QUIET = (State.IDLE, State.CONNECTING, State.WAITING_FOR_HUMAN)  # nothing is asked
AT_REST = (State.IDLE, State.CONNECTING, State.HOLDING, State.WAITING_FOR_HUMAN)
LAST_ORDER: Mapping[State, tuple[type, ...]] = {
    State.EXECUTING: (Play,),
    State.HOLDING: (Hold, MoveTo),  # a move to the safe pose that has ended
    State.WAITING_FOR_HUMAN: (Hold,),
    State.CONNECTING: (Hold, MoveTo),  # the last leg of a reset
    State.INFERRING: (Hold, MoveTo, Play),
    State.RETURNING: (MoveTo,),
    State.RESETTING: (MoveTo,),
    State.CLEARING: (MoveTo,),
}


class Breach(NamedTuple):
    """A promise that did not hold: which one, and what happened, in words."""

    rule: str
    words: str


# -- what holds between two events ------------------------------------------------------------------------------------


def of_state(core: Mission) -> Iterator[Breach]:
    """Everything that is wrong with what `core` is doing now."""
    if (core.state is State.WAITING_FOR_HUMAN) is not (core.person.alert is not None):
        yield Breach(
            ALERT_OPEN,
            f"an alert is {'open' if core.person.alert else 'not open'} in state {core.state.value}",
        )
    yield from _order_fits(core)
    yield from _calls_fit(core)
    yield from _held(core)
    yield from _danger(core)
    yield from _limits(core)


def stands_when_unsafe(core: Mission) -> bool:
    """Whether the fallback of safety is anything but the move to the safe pose."""
    return fallback(core.calls[SAFETY].component.fallback) is not FallbackAction.RETURN_TO_SAFE_STATE


def _order_fits(core: Mission) -> Iterator[Breach]:
    state, order = core.state, core.arm.last_order
    expected = LAST_ORDER.get(state)
    if expected and not isinstance(order, expected):
        yield Breach(ORDER_FITS, f"is {state.value}, but the last order is {order}")
    if state in MOVES and isinstance(order, MoveTo):
        if (order.pose, order.gripper) != (core.arm.leg.pose, core.arm.leg.gripper):
            yield Breach(ORDER_FITS, f"goes to {core.arm.leg}, but the last order is {order}")
        if state is not State.RESETTING and order.pose != "safe":
            yield Breach(ORDER_FITS, f"is {state.value}, but the last order is {order}")
    if core.lets_move and state in AT_REST:
        yield Breach(ORDER_FITS, f"gives the arm a sign of life while it is {state.value}")


def _calls_fit(core: Mission) -> Iterator[Breach]:
    """Nothing is asked whose answer would not be used. System 1 and 2 are asked about what the robot stands before, or,
    where its task says so, while a chunk plays."""
    state, pipeline = core.state, core.task.pipeline
    asked = [calls.name for calls in core.calls.values() if calls.in_flight]
    if not asked:
        return
    if state in QUIET:
        yield Breach(NO_OLD_PICTURE, f"is {state.value}, but waits for {asked}")
    others = [name for name in asked if name != SAFETY]
    if state is State.CLEARING and others:
        yield Breach(NO_OLD_PICTURE, f"is on its way to a human, but waits for {others}")
    chain = [name for name in GOAL_COUPLED if name in asked]
    plays = state is State.EXECUTING
    allowed = {
        *([SYSTEM1] if plays and pipeline.execution == ASYNCHRONOUS else []),
        *([SYSTEM2] if plays and pipeline.planning == AHEAD else []),
    }
    if state is not State.INFERRING and set(chain) - allowed:
        yield Breach(NO_OLD_PICTURE, f"is {state.value}, but waits for {chain} about an old picture")
    if len(chain) > 1:
        words = f"waits for {chain} at once, although one needs the answer of the other"
        yield Breach(NO_OLD_PICTURE, words)


def _held(core: Mission) -> Iterator[Breach]:
    if core.holds.by and core.state not in (State.HOLDING, State.RETURNING):
        yield Breach(HELD_STAYS, f"is {core.state.value}, but held by {', '.join(core.holds.by)}")
    if core.holds.unfinished in RETURN_IS_OWED and core.state is not State.HOLDING:
        words = f"is {core.state.value} although its move to the safe pose was interrupted"
        yield Breach(HELD_STAYS, words)


def _danger(core: Mission) -> Iterator[Breach]:
    state = core.state
    if (core.holds.safety is Safety.UNSAFE) is not (core.holds.unsafe_in_a_row > 0):
        counted = f"{core.holds.unsafe_in_a_row} unsafe verdicts in a row are counted"
        words = f"safety is {core.holds.safety.value}, but {counted}"
        yield Breach(DANGER_STOPS, words)
    if state is State.EXECUTING and core.holds.safety not in MAY_INFER:
        yield Breach(DANGER_STOPS, "carries out a chunk before safety has said safe")
    if not core.holds.unsafe_in_a_row:
        return
    if stands_when_unsafe(core) and state is not State.HOLDING and state not in QUIET:
        words = f"is {state.value} although safety says unsafe, which its fallback answers by standing still"
        yield Breach(DANGER_STOPS, words)
    if SAFETY not in core.holds.by and state not in (State.IDLE, State.WAITING_FOR_HUMAN, State.CLEARING):
        yield Breach(DANGER_STOPS, "is not held although the last safety verdict is unsafe")


def _limits(core: Mission) -> Iterator[Breach]:
    limit = core.task.safety_and_slo_violation
    for calls in core.calls.values():
        # Clearing ends with a human in any case.
        counts = core.state not in QUIET and core.state is not State.CLEARING
        if counts and calls.consecutive_missed >= limit.max_consecutive_slo_violation:
            words = f"goes on after {calls.consecutive_missed} misses of {calls.name} in a row"
            yield Breach(LIMITS_HOLD, words)
    stops = core.holds.stops_in_a_row
    if core.state in (State.HOLDING, State.RETURNING) and stops >= limit.max_stops_without_action:
        yield Breach(LIMITS_HOLD, f"goes on after {stops} stops with no action carried out between")


# -- what holds of everything that goes in and comes out --------------------------------------------------------------


@dataclass(slots=True)
class OpenCall:
    """A call that is open."""

    component: str
    deadline_s: float


class Books:
    """What one robot's core was told and has commanded: what was sent when, which answer has arrived, what the arm was
    told last."""

    def __init__(self, task: Task, spec: RobotSpec, period_s: float) -> None:
        """`period_s`: the longest time between two looks of the core, in s."""
        self._task, self._spec, self._period_s = task, spec, period_s
        self.open: dict[int, OpenCall] = {}  # by request id
        self.newest_id = 0
        self.plays_until_s = -1.0
        self.moves = False
        self.waits_for_human = False
        self._arrived: Response | None = None  # the response that is being taken in
        self._ended_now: dict[int, CallEnded] = {}

    @classmethod
    def of(cls, core: Mission, now_s: float) -> Books:
        """As if they had been kept until now; a chunk that plays lasts for ever."""
        books = cls(core.task, core.robot, 0.0)
        for calls in core.calls.values():
            if calls.request_id is not None:
                books.open[calls.request_id] = OpenCall(calls.name, calls.deadline_s)
        books.newest_id = core.request_id
        books.plays_until_s = inf if core.state is State.EXECUTING else now_s
        books.moves = core.state in MOVES
        books.waits_for_human = core.person.alert is not None
        return books

    def arrives(self, response: Response) -> None:
        """A response is handed to the core next."""
        self._arrived = response

    def decided(self) -> None:
        """An operator's decision is handed to the core next, and the core accepts it."""
        self.waits_for_human = False

    def commands(self, commands: Iterable[Command], now_s: float) -> list[Breach]:
        """What the core has just returned; what is wrong with it."""
        self._ended_now.clear()
        must_stop = ""
        broken: list[Breach] = []
        for command in commands:
            if isinstance(command, Send):
                broken += self._send(command, now_s)
            elif isinstance(command, CallEnded):
                broken += self._call_ended(command, now_s)
                must_stop = self._stops(command) or must_stop
            elif isinstance(command, Play | MoveTo):
                broken += self._moving(command, now_s)
            elif isinstance(command, Hold):
                self.plays_until_s, self.moves = now_s, False
            elif isinstance(command, Alert | RecoverArm):  # recovering the arm settles nothing
                self.waits_for_human = True
            elif isinstance(command, TaskEnded):
                self.waits_for_human = False
        must_stop = must_stop or self._unsafe()
        if must_stop and self.plays_until_s > now_s:
            broken.append(Breach(STOP_WITHIN_A_PERIOD, f"plays on although {must_stop}"))
        if self.waits_for_human and (self.plays_until_s > now_s or self.moves):
            broken.append(Breach(STILL_AFTER_ESCALATION, "called a human and still moves"))
        self._arrived = None
        return broken

    def differ(self, core: Mission) -> Iterator[Breach]:
        """What the core believes to be open, and is not, or the other way round."""
        believed = {calls.request_id for calls in core.calls.values() if calls.in_flight}
        if believed != self.open.keys():
            yield Breach(ENDS_ONCE, f"waits for {believed}, but open are {set(self.open)}")

    def look(self, now_s: float) -> Iterator[Breach]:
        """Time has passed: no call may be open beyond its deadline and one period."""
        for request_id, sent in self.open.items():
            if now_s > sent.deadline_s + self._period_s + ROUNDING_S:
                late_ms = (now_s - sent.deadline_s) * 1000
                words = f"{sent.component} {request_id} is open {late_ms:.1f} ms after its deadline"
                yield Breach(STOP_WITHIN_A_PERIOD, words)

    def _send(self, send: Send, now_s: float) -> Iterator[Breach]:
        if send.request_id <= self.newest_id:
            yield Breach(ENDS_ONCE, f"sends number {send.request_id} again")
        if any(sent.component == send.component for sent in self.open.values()):
            words = f"sends {send.component} {send.request_id} before the former call has ended"
            yield Breach(ENDS_ONCE, words)
        self.newest_id = max(self.newest_id, send.request_id)
        self.open[send.request_id] = OpenCall(send.component, now_s + send.budget_ms / 1000)

    def _call_ended(self, ended: CallEnded, now_s: float) -> Iterator[Breach]:
        sent = self.open.pop(ended.request_id, None)
        what = f"{ended.component} {ended.request_id} {ended.ending}"
        if sent is None:
            yield Breach(ENDS_ONCE, f"{what}, but it was not open")
            return
        self._ended_now[ended.request_id] = ended
        late_s = now_s - sent.deadline_s
        if ended.ending == "in_time":
            came = self._arrived
            if came is None or came.request_id != ended.request_id or came.status != OK:
                yield Breach(NOTHING_LATE, f"{what} without an answer")
            if late_s > 1e-9:
                yield Breach(NOTHING_LATE, f"{what}, {late_s:.6f} s late")
        if ended.ending == "missed" and late_s > self._period_s + ROUNDING_S:
            yield Breach(STOP_WITHIN_A_PERIOD, f"{what} {late_s:.6f} s late")

    def _stops(self, ended: CallEnded) -> str:
        """Why the arm has to stop now, or nothing."""
        action = fallback(self._task.components[ended.component].fallback)
        stops = ended.ending == "missed" and action > FallbackAction.USE_LAST_PLAN
        return f"{ended.component} {ended.request_id} was missed" if stops else ""

    def _unsafe(self) -> str:
        """Why the arm has to stop: safety has just said so."""
        came = self._arrived
        ended = self._ended_now.get(came.request_id) if came is not None else None
        if came is None or ended is None or ended.ending != "in_time" or came.output is None:
            return ""
        # A word of safety is no verdict of another component.
        says = ended.component == SAFETY and came.output.verdict == "unsafe"
        return "safety says unsafe" if says else ""

    def _moving(self, order: Play | MoveTo, now_s: float) -> Iterator[Breach]:
        if self.waits_for_human:
            yield Breach(STILL_AFTER_ESCALATION, f"orders {type(order).__name__} while it waits for a human")
        if isinstance(order, MoveTo):
            self.plays_until_s, self.moves = now_s, True
            return
        came = self._arrived
        if came is None or came.request_id != order.request_id:
            words = f"plays request {order.request_id}, which is not what has just arrived"
            yield Breach(NOTHING_LATE, words)
        elif (ended := self._ended_now.get(order.request_id)) is None or ended.ending != "in_time":
            yield Breach(NOTHING_LATE, f"plays {order.request_id}, not in time")
        if not inside(order, self._spec):
            yield Breach(NOTHING_OUT_OF_RANGE, "plays beyond its limits")
        self.plays_until_s, self.moves = now_s + order.duration_s, False


def inside(order: Play, spec: RobotSpec) -> bool:
    """Whether every waypoint is a position that the joints may have."""
    limits = spec.limits
    rows = order.actions[:, : len(spec.joints)]
    return all(
        isfinite(value) and low <= value <= high
        for row in rows.tolist()
        for value, low, high in zip(row, limits.position_min_rad, limits.position_max_rad, strict=True)
    )


# -- the same, as an observer sees it that has nothing but times -------------------------------------------------------


def unanswered(plays_s: Iterable[float], in_time_s: Iterable[float], same_moment_s: float) -> int:
    """`nothing_late`: how many chunks began without a call of System 1 that ended in time just then.

    Each chunk, in the order in which they were sent, takes one call that ended within `same_moment_s` of it.
    """
    free_s = sorted(in_time_s)
    late = 0
    for play_s in plays_s:
        at = bisect.bisect_left(free_s, play_s - same_moment_s)
        if at < len(free_s) and free_s[at] <= play_s + same_moment_s:
            del free_s[at]
        else:
            late += 1
    return late


def while_waiting(plays_s: Iterable[float], waits_s: Iterable[tuple[float, float]]) -> int:
    """`still_after_escalation`: how many chunks began between an alert and its decision."""
    waits_s = list(waits_s)
    return sum(since_s < play_s < until_s for play_s in plays_s for since_s, until_s in waits_s)
