"""Which situations the search takes for the same: those with one key.

`fine` leaves out only what every way out of the present state forgets. `coarse` also leaves out what the core as it is
overwrites before it reads it, for cells that are too large otherwise. A core that still reads such a value would
make two situations with one coarse key go on differently; a test compares both keys on cells that are searched with
either (`tests/unit/sim/explore/test_keys.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf

from rosa_client.runtime.checks import ARM
from rosa_client.runtime.machines.side_machines import Unfinished
from rosa_client.runtime.machines.task_machine import MOVES, State
from rosa_sim.explore.situation import NOW_S, Situation

Key = Callable[[Situation], Hashable]

CHAIN = (State.INFERRING, State.EXECUTING)
RESET_IS_OWED = (Unfinished.RESET, Unfinished.RETURN_THEN_RESET)


def fine(situation: Situation) -> Hashable:
    """All that the core or the arm may still look at."""
    core = situation.core
    inputs = (core.inputs.emergency_stop, core.inputs.arm_fault, core.arm.excused_fault)
    arm = (situation.arm_state, situation.arm_behind, situation.arm_cut)
    excused = (core.arm.awaited, situation.excused)
    if core.state is State.IDLE:
        return (core.state, inputs, arm)
    refused = _refused(situation, everyone=True)
    if core.state is State.WAITING_FOR_HUMAN:
        return (core.state, inputs, arm, refused, core.person.alert is not None)
    if core.state is State.CLEARING:
        asked = tuple(calls.in_flight for calls in core.calls.values())
        return (
            core.state,
            inputs,
            excused,
            arm,
            refused,
            asked,
            core.holds.safety,
            core.arm.leg,
            core.arm.leg_progress,
        )
    return (
        *(core.state, inputs, excused, arm, refused),
        *_task(situation),
        (core.holds.safety, core.holds.unfinished),
        type(core.arm.last_order),
        (core.chunk.ask_next_s == inf, situation.joins) if core.state in CHAIN else None,
    )


def coarse(situation: Situation) -> Hashable:
    """Without what is overwritten before it is read:

    - Outside a task and while a human decides, whatever ends that gives the arm a new order.
    - Elsewhere an emergency stop calls a human in the period in which it is seen.
    - During a reset System 1 and 2 are not called, and the attempt that follows begins with nobody refused.
    - The time to ask for the next chunk is set when a chunk begins.
    """
    core = situation.core
    if core.state is State.IDLE:
        return (core.state, core.inputs.arm_fault)
    if core.state is State.WAITING_FOR_HUMAN:
        wrong = (core.inputs.emergency_stop, core.inputs.arm_fault)
        return (core.state, wrong, _refused(situation, everyone=False), core.person.alert is not None)
    fault = (core.inputs.arm_fault, core.arm.excused_fault, core.arm.awaited, situation.excused)
    arm = _arm(situation)
    if core.state is State.CLEARING:
        asked = tuple(calls.in_flight for calls in core.calls.values())
        refused = _refused(situation, everyone=False)
        return (
            core.state,
            fault,
            arm,
            refused,
            asked,
            core.holds.safety,
            core.arm.leg,
            core.arm.leg_progress,
        )
    resets = core.state is State.RESETTING or core.holds.unfinished in RESET_IS_OWED
    return (
        *(core.state, fault, arm, _refused(situation, everyone=not resets)),
        *_task(situation),
        (core.holds.safety, core.holds.unfinished),
        core.chunk.ask_next_s == inf if core.state is State.EXECUTING else None,
        situation.joins if core.state in CHAIN else None,
    )


def _task(situation: Situation) -> tuple[Hashable, ...]:
    """Calls, causes, plan and counters of a task that goes on, the same in both keys."""
    core = situation.core
    return (
        tuple((calls.in_flight, calls.consecutive_missed) for calls in core.calls.values()),
        tuple(sorted((key, held.action.value) for key, held in core.holds.by.items())),
        (core.planning.plan is not None, round(core.planning.credit, 3)),
        (
            core.holds.unsafe_in_a_row,
            core.holds.cut_short_in_a_row,
            core.holds.stops_in_a_row,
            core.attempts.failures,
        ),
        tuple(tuple(seen) for seen in core.attempts.verdicts.values() if seen.maxlen != 1),
        (core.arm.leg, core.arm.leg_progress) if core.state in MOVES else None,
        (situation.reset_owed, situation.retried, core.person.alert is not None),
        _observed(situation),
    )


def _observed(situation: Situation) -> Hashable:
    """The components asked about what this round's first call saw; None where each call of the chain observes anew."""
    core = situation.core
    shares = core.task.pipeline.share_observation_ms > 0
    if not shares or core.sight.of_round is None or core.state not in CHAIN:
        return None
    return tuple(calls.about for calls in core.calls.values())


def _refused(situation: Situation, everyone: bool) -> tuple[bool, ...]:
    """Components that must not be asked again yet: of all, or of the periodic ones."""
    return tuple(
        calls.resend_after_s > NOW_S
        for calls in situation.core.calls.values()
        if everyone or calls.component.freq_hz is not None
    )


def _arm(situation: Situation) -> Hashable:
    """The order that it will take next. What it does until then is about an older one, which the core disregards.

    Of an arm that has taken the newest: whether it still moves. That it cut an order short is read in the same period,
    except while the robot is held for it.
    """
    if situation.arm_behind:
        return type(situation.core.arm.last_order).__name__
    return (situation.arm_state, situation.arm_cut and ARM in situation.core.holds.by)
