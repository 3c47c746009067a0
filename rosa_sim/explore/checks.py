"""What must hold after every event of the search. Each check yields a description of what is broken."""

from __future__ import annotations

from collections.abc import Iterator

from rosa_client.runtime.commands import (
    OPEN,
    RETURNING,
    Alert,
    CallEnded,
    Decision,
    Hold,
    MoveTo,
    Play,
    Send,
    TaskEnded,
)
from rosa_client.runtime.machines.side_machines import MAY_INFER, RETURN_IS_OWED, Safety
from rosa_client.runtime.machines.task_machine import MOVES, State
from rosa_client.runtime.mission import Mission
from rosa_contract.config.tasks import AHEAD, ASYNCHRONOUS, GOAL_COUPLED, SAFETY, SYSTEM1, SYSTEM2
from rosa_contract.fallbacks import FallbackAction, fallback
from rosa_sim.explore.events import AFTER_DEADLINE
from rosa_sim.explore.harmless import remembered
from rosa_sim.explore.situation import Situation

QUIET = (State.IDLE, State.CONNECTING, State.WAITING_FOR_HUMAN)
CALLED = (State.WAITING_FOR_HUMAN, State.CLEARING, State.IDLE)  # a human, or the task was given up
AT_REST = (State.IDLE, State.CONNECTING, State.HOLDING, State.WAITING_FOR_HUMAN)
LAST_ORDER = {
    State.EXECUTING: (Play,),
    State.HOLDING: (Hold, MoveTo),  # a move to the safe pose that has ended
    State.WAITING_FOR_HUMAN: (Hold,),
    State.CONNECTING: (Hold, MoveTo),  # the last leg of a reset
    State.INFERRING: (Hold, MoveTo, Play),
    State.RETURNING: (MoveTo,),
    State.RESETTING: (MoveTo,),
    State.CLEARING: (MoveTo,),
}

# A decision of the core -> the beginning of the only events that may cause it.
MEANT = {
    ("done", "monitor"): "monitor answers 'done'",
    ("retry", "monitor"): "monitor answers 'failed'",
    ("execute", "actions_in_time"): "system1 answers actions",
    ("plan", "plan_in_time"): "system2 answers '",
}


def broken(before: Situation, event: str, after: Situation) -> Iterator[str]:
    """What `event` broke, in words."""
    core, was = after.core, before.core
    moved = [command for command in after.commands if isinstance(command, Play | MoveTo)]
    decided = event.startswith("operator: ") and not after.refusal
    if was.alert is not None and moved and not decided:
        yield f"moves ({moved}) after an escalation without a decision"
    if any(isinstance(c, Alert) for c in after.commands) and core.state is not State.WAITING_FOR_HUMAN:
        yield f"calls a human and then does not wait but is {core.state.value}"
    if (core.state is State.WAITING_FOR_HUMAN) is not (core.alert is not None):
        yield f"an alert is {'open' if core.alert else 'not open'} in state {core.state.value}"
    drives_away = core.state is State.CLEARING and was.state is not State.CLEARING and not decided
    if drives_away and core.unsafe_in_a_row and stands_when_unsafe(core):
        yield "drives to the safe pose in a danger that safety answers by standing still"
    if after.refusal and remembered(after) != remembered(before):
        yield "a refused decision changed something"
    if any(isinstance(c, Play) for c in moved) and event != "system1 answers actions":
        yield "plays something that is no answer in time"
    led_on = core.inputs.arm_state == RETURNING  # which is waited for
    if after.arm_cut and not (after.arm_behind or led_on) and core.state in (State.EXECUTING, *MOVES):
        yield f"is {core.state.value} as if the arm had not cut its order short"
    if event == "the arm takes no order in time" and core.state not in (State.CONNECTING, *CALLED):
        yield f"is {core.state.value} although the arm takes no orders"
    yield from _meant(before, event, after)
    yield from _resets(before, after)
    if after.blind and core.state in (State.INFERRING, State.EXECUTING, State.RESETTING):
        yield f"is {core.state.value} although it sees nothing"
    opens = [one.pose for one in moved if isinstance(one, MoveTo) and one.gripper == OPEN]
    if after.object_held and opens and opens != ["drop"]:
        yield f"lets go of what it holds on the way to {opens}"
    yield from _stopped(after, moved)
    yield from _led_on(before, event, after)
    yield from _fell_back(before, after)
    yield from _orders(core)
    yield from _calls(before, after)
    yield from _held(core, moved)
    yield from _progress(was, core)


def _meant(before: Situation, event: str, after: Situation) -> Iterator[str]:
    """Each answer acts once and in time; a call whose deadline has passed is missed."""
    if AFTER_DEADLINE in event:
        endings = [
            c.ending for c in after.commands if isinstance(c, CallEnded) and event.startswith(c.component)
        ]
        if endings != ["missed"]:
            yield f"a call whose deadline has passed ended {endings}"
    causes = [(c.action, c.cause) for c in after.commands if isinstance(c, Decision)]
    for decision, said in MEANT.items():
        if decision in causes and not event.startswith(said):
            yield f"{decision} without an answer that says so"
    ended = [command for command in after.commands if isinstance(command, TaskEnded)]
    over = before.core.state is not State.IDLE and after.core.state is State.IDLE
    if len(ended) != over or (over and not isinstance(after.core.last_order, Hold)):
        yield f"is {after.core.state.value}, reported {len(ended)} ends, and last ordered {after.core.last_order}"


def _resets(before: Situation, after: Situation) -> Iterator[str]:
    """An interrupted reset begins again before the task goes on, and there are no more retries than allowed."""
    core = after.core
    if before.core.state is State.RESETTING and core.state in (State.HOLDING, State.RETURNING):
        after.reset_owed = True
    if after.reset_owed and core.state in (State.INFERRING, State.EXECUTING):
        yield f"is {core.state.value} although its reset was interrupted"
    if after.retried > core.task.task_retry.max_task_retries:
        yield f"has tried {after.retried} times again"


def _stopped(after: Situation, moved: list[Play | MoveTo]) -> Iterator[str]:
    """An emergency stop or a fault ends all motion at once, and only a person ends that."""
    core = after.core
    wrong = after.faulty or (after.ticked and core.inputs.emergency_stop)
    if wrong and core.state not in (State.IDLE, State.WAITING_FOR_HUMAN):
        yield f"is {core.state.value} in spite of an emergency stop or a fault"
    if core.inputs.emergency_stop and moved:
        yield "moves under an emergency stop"


def _led_on(before: Situation, event: str, after: Situation) -> Iterator[str]:
    """An arm that is led on after a fault calls a human, unless a person knew of it; then it is waited for."""
    core, was = after.core, before.core
    if not after.returns or core.state is State.IDLE or was.state in (State.IDLE, State.WAITING_FOR_HUMAN):
        return
    called = any(isinstance(command, Alert) and command.cause == "arm_fault" for command in after.commands)
    if called and after.excused:
        yield "calls a human again although the arm is led on, as a person knew"
    if not after.excused and not before.arm_behind and core.state is not State.WAITING_FOR_HUMAN:
        yield f"is {core.state.value} although its arm is led on and nobody has decided about it"
    if core.state is State.EXECUTING:
        yield "carries out a chunk with an arm that is led on"
    asked = [c.component for c in after.commands if isinstance(c, Send) and c.component in GOAL_COUPLED]
    if asked:
        yield f"asks {asked} about an arm that is led on"
    again = [c for c in after.commands if isinstance(c, Play | MoveTo)]
    if again and core.state is was.state:
        yield f"orders {again} again while the arm is led on"
    if event.startswith("the state lasts too long") and core.state in (State.CONNECTING, *MOVES):
        yield f"is {core.state.value} although its arm is led on for too long"


def _fell_back(before: Situation, after: Situation) -> Iterator[str]:
    """When several calls were missed at once, the most severe fallback ran."""
    core, was = after.core, before.core
    missed = [c.component for c in after.commands if isinstance(c, CallEnded) and c.ending == "missed"]
    actions = {fallback(was.calls[name].component.fallback): name for name in missed}
    worst = max(actions, default=FallbackAction.USE_LAST_PLAN)
    if worst is FallbackAction.STOP_AND_CALL_HUMAN and core.state is not State.WAITING_FOR_HUMAN:
        yield f"is {core.state.value} instead of calling a human for {actions[worst]}"
    elif worst is FallbackAction.RETURN_TO_SAFE_STATE and core.state not in (State.RETURNING, *CALLED):
        held = was.held_by.get(actions[worst])
        waits = core.unfinished in RETURN_IS_OWED and core.stands_in_danger
        if not waits and (held is None or held.action is not worst):
            yield f"is {core.state.value} instead of returning to the safe pose for {actions[worst]}"
    elif worst > FallbackAction.USE_LAST_PLAN and core.state in (State.EXECUTING, State.RESETTING):
        yield f"is {core.state.value} instead of stopping for {actions[worst]}"
    if worst > FallbackAction.STOP_AND_RESEND and core.plan is not None and core.state not in CALLED:
        yield f"keeps its plan in spite of {worst.key}"


def _orders(core: Mission) -> Iterator[str]:
    """The newest order fits the state."""
    expected = LAST_ORDER.get(core.state)
    if expected and not isinstance(core.last_order, expected):
        yield f"is {core.state.value}, but the last order is {core.last_order}"
    if core.state in MOVES and isinstance(core.last_order, MoveTo):
        if (core.last_order.pose, core.last_order.gripper) != (core.leg.pose, core.leg.gripper):
            yield f"goes to {core.leg}, but the last order is {core.last_order}"
        if core.state is not State.RESETTING and core.last_order.pose != "safe":
            yield f"is {core.state.value}, but the last order is {core.last_order}"
    if core.lets_move and core.state in AT_REST:
        yield f"gives the arm a sign of life while it is {core.state.value}"


def _calls(before: Situation, after: Situation) -> Iterator[str]:
    """Every call ends exactly once, and no call is open whose answer would not be used."""
    open_before = {calls.request_id for calls in before.core.calls.values() if calls.in_flight}
    sent = [command.request_id for command in after.commands if isinstance(command, Send)]
    ended = [command.request_id for command in after.commands if isinstance(command, CallEnded)]
    open_now = {calls.request_id for calls in after.core.calls.values() if calls.in_flight}
    if len(set(ended)) != len(ended) or not set(ended) <= open_before | set(sent):
        yield f"calls {ended} ended, but open were {open_before} and {sent}"
    if (open_before | set(sent)) - set(ended) != open_now:
        yield f"open were {open_before}, sent {sent}, ended {ended}, but open are {open_now}"
    if after.core.state in QUIET and open_now:
        yield f"is {after.core.state.value}, but waits for {open_now}"
    others = [calls.name for calls in after.core.calls.values() if calls.in_flight and calls.name != SAFETY]
    if after.core.state is State.CLEARING and others:
        yield f"is on its way to a human, but waits for {others}"
    yield from _chain(before, after, set(ended))


def _chain(before: Situation, after: Situation, ended: set[int]) -> Iterator[str]:
    """System 1 and 2 are asked about what the robot stands before, or, where its task says so, while a chunk plays; and
    no answer to what was seen before a stop is ever used."""
    core, pipeline = after.core, after.core.task.pipeline
    chain = [core.calls[name] for name in GOAL_COUPLED if name in core.calls]
    open_now = [calls.name for calls in chain if calls.in_flight]
    plays = core.state is State.EXECUTING
    allowed = {
        *([SYSTEM1] if plays and pipeline.execution == ASYNCHRONOUS else []),
        *([SYSTEM2] if plays and pipeline.planning == AHEAD else []),
    }
    if core.state is not State.INFERRING and set(open_now) - allowed:
        yield f"is {core.state.value}, but waits for {open_now} about an old picture"
    if len(open_now) > 1:
        yield f"waits for {open_now} at once, although one needs the answer of the other"
    if any(isinstance(command, Hold | MoveTo) for command in after.commands):
        for name in GOAL_COUPLED:
            asked = before.core.calls[name].request_id if name in before.core.calls else None
            if asked is not None and asked not in ended:
                yield f"stops, and still waits for {name} about what it saw before"
    if plays and after.joins and core.held_by:
        yield "asks for the next chunk while something holds it"
    yield from _observations(before, after)


def _observations(before: Situation, after: Situation) -> Iterator[str]:
    """What was seen before a stop, or before a chunk was played, is nothing that the robot acts on after it."""
    core, was = after.core, before.core
    stopped = any(isinstance(command, Hold | MoveTo) for command in after.commands)
    begins = core.state is State.INFERRING and (stopped or was.state is not State.INFERRING)
    if begins and core.round_observed is not None and core.round_observed.number <= was.observed.number:
        yield "infers again, and remembers what it saw before"
    for sent in after.commands:
        if isinstance(sent, Send) and sent.observation <= was.observed.number:
            if was.round_observed is None or sent.observation != was.round_observed.number:
                yield f"asks {sent.component} about an old picture"
            elif was.calls[sent.component].about == sent.observation:
                yield f"asks {sent.component} about the same picture again"


def _held(core: Mission, moved: list[Play | MoveTo]) -> Iterator[str]:
    """While a cause holds the robot, it does not move except to the safe pose."""
    if core.held_by and core.state not in (State.HOLDING, State.RETURNING):
        yield f"is {core.state.value}, but held by {', '.join(core.held_by)}"
    if core.held_by and any(isinstance(one, Play) or one.pose != "safe" for one in moved):
        yield f"moves {moved}, but is held by {', '.join(core.held_by)}"
    if core.unsafe_in_a_row and stands_when_unsafe(core) and core.state not in (State.HOLDING, *QUIET):
        yield f"is {core.state.value} although safety says unsafe, which its fallback answers by standing still"
    if core.unfinished in RETURN_IS_OWED and core.state is not State.HOLDING:
        yield f"is {core.state.value} although its move to the safe pose was interrupted"
    limit = core.task.safety_and_slo_violation
    if core.state is State.EXECUTING and core.safety not in MAY_INFER:
        yield "carries out a chunk before safety has said safe"
    if (core.safety is Safety.UNSAFE) is not (core.unsafe_in_a_row > 0):
        yield f"safety is {core.safety.value}, but {core.unsafe_in_a_row} unsafe verdicts in a row are counted"
    if (
        core.unsafe_in_a_row
        and SAFETY not in core.held_by
        and core.state in (State.EXECUTING, State.RESETTING)
    ):
        yield "moves although the last safety verdict is unsafe"
    for calls in core.calls.values():
        counts = core.state not in (*QUIET, State.CLEARING)  # which ends with a human in any case
        if counts and calls.consecutive_missed >= limit.max_consecutive_slo_violation:
            yield f"goes on after {calls.consecutive_missed} misses of {calls.name} in a row"


def _progress(was: Mission, core: Mission) -> Iterator[str]:
    """What keeps stopping the robot counts until an action is carried out, and calls a human in the end."""
    if core.state not in (State.HOLDING, State.RETURNING):
        return
    limit = core.task.safety_and_slo_violation.max_stops_without_action
    if core.stops_in_a_row >= limit:
        yield f"goes on after {core.stops_in_a_row} stops with no action carried out between"
    stopped_by = set(core.held_by) - set(was.held_by) - set(GOAL_COUPLED)
    before = was.stops_in_a_row if was.state is not State.EXECUTING else 0  # whose chunk may have ended
    if stopped_by and not was.held_by and core.stops_in_a_row <= before:
        yield f"was stopped by {', '.join(stopped_by)} and does not count it"


def stands_when_unsafe(core: Mission) -> bool:
    """Whether the fallback of safety is anything but the move to the safe pose."""
    return fallback(core.calls[SAFETY].component.fallback) is not FallbackAction.RETURN_TO_SAFE_STATE


def finished(situation: Situation) -> bool:
    """The task is over, or a human is asked: the two ends that every continuation must come to."""
    return situation.core.state in (State.IDLE, State.WAITING_FOR_HUMAN)
