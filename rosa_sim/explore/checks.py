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
from rosa_client.runtime.invariants import Books, of_state, stands_when_unsafe
from rosa_client.runtime.machines.side_machines import RETURN_IS_OWED
from rosa_client.runtime.machines.task_machine import MOVES, State
from rosa_client.runtime.mission import Mission
from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_contract.fallbacks import FallbackAction, fallback
from rosa_sim.explore.events import AFTER_DEADLINE
from rosa_sim.explore.harmless import remembered
from rosa_sim.explore.situation import NOW_S, Situation

CALLED = (State.WAITING_FOR_HUMAN, State.CLEARING, State.IDLE)  # a human, or the task was given up

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
    if any(isinstance(c, Alert) for c in after.commands) and core.state is not State.WAITING_FOR_HUMAN:
        yield f"calls a human and then does not wait but is {core.state.value}"
    drives_away = core.state is State.CLEARING and was.state is not State.CLEARING and not decided
    if drives_away and core.holds.unsafe_in_a_row and stands_when_unsafe(core):
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
    yield from _chain(before, after)
    if core.holds.by and any(isinstance(one, Play) or one.pose != "safe" for one in moved):
        yield f"moves {moved}, but is held by {', '.join(core.holds.by)}"
    yield from _progress(was, core)
    yield from _promises(before, after, decided)


def _promises(before: Situation, after: Situation, decided: bool) -> Iterator[str]:
    """Those that everybody checks."""
    books = Books.of(before.core, NOW_S)
    if after.arrived is not None:
        books.arrives(after.arrived)
    if decided:
        books.decided()
    for rule, words in (
        *books.commands(after.commands, NOW_S),
        *books.differ(after.core),
        *of_state(after.core),
    ):
        yield f"{rule}: {words}"


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
    if len(ended) != over or (over and not isinstance(after.core.arm.last_order, Hold)):
        yield f"is {after.core.state.value}, reported {len(ended)} ends, and last ordered {after.core.arm.last_order}"


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
        held = was.holds.by.get(actions[worst])
        waits = core.holds.unfinished in RETURN_IS_OWED and core.stands_in_danger
        if not waits and (held is None or held.action is not worst):
            yield f"is {core.state.value} instead of returning to the safe pose for {actions[worst]}"
    elif worst > FallbackAction.USE_LAST_PLAN and core.state in (State.EXECUTING, State.RESETTING):
        yield f"is {core.state.value} instead of stopping for {actions[worst]}"
    if worst > FallbackAction.STOP_AND_RESEND and core.planning.plan is not None and core.state not in CALLED:
        yield f"keeps its plan in spite of {worst.key}"


def _chain(before: Situation, after: Situation) -> Iterator[str]:
    """No answer to what was seen before a stop is ever used."""
    core = after.core
    if any(isinstance(command, Hold | MoveTo) for command in after.commands):
        ended = [command.request_id for command in after.commands if isinstance(command, CallEnded)]
        for name in GOAL_COUPLED:
            asked = before.core.calls[name].request_id if name in before.core.calls else None
            if asked is not None and asked not in ended:
                yield f"stops, and still waits for {name} about what it saw before"
    if core.state is State.EXECUTING and after.joins and core.holds.by:
        yield "asks for the next chunk while something holds it"
    yield from _observations(before, after)


def _observations(before: Situation, after: Situation) -> Iterator[str]:
    """What was seen before a stop, or before a chunk was played, is nothing that the robot acts on after it."""
    core, was = after.core, before.core
    stopped = any(isinstance(command, Hold | MoveTo) for command in after.commands)
    begins = core.state is State.INFERRING and (stopped or was.state is not State.INFERRING)
    if begins and core.sight.of_round is not None and core.sight.of_round.number <= was.sight.newest.number:
        yield "infers again, and remembers what it saw before"
    for sent in after.commands:
        if isinstance(sent, Send) and sent.observation <= was.sight.newest.number:
            if was.sight.of_round is None or sent.observation != was.sight.of_round.number:
                yield f"asks {sent.component} about an old picture"
            elif was.calls[sent.component].about == sent.observation:
                yield f"asks {sent.component} about the same picture again"


def _progress(was: Mission, core: Mission) -> Iterator[str]:
    """What keeps stopping the robot counts until an action is carried out."""
    if core.state not in (State.HOLDING, State.RETURNING):
        return
    stopped_by = set(core.holds.by) - set(was.holds.by) - set(GOAL_COUPLED)
    before = was.holds.stops_in_a_row if was.state is not State.EXECUTING else 0  # whose chunk may have ended
    if stopped_by and not was.holds.by and core.holds.stops_in_a_row <= before:
        yield f"was stopped by {', '.join(stopped_by)} and does not count it"


def finished(situation: Situation) -> bool:
    """The task is over, or a human is asked: the two ends that every continuation must come to."""
    return situation.core.state in (State.IDLE, State.WAITING_FOR_HUMAN)
