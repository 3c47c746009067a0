"""Everything that can happen to an arm, its measurements included: the search of the robot's side that moves.

Each event is something that happens at one instant, and a few control periods of the real control loop after it
(`arm_world.py`). Positions and times are numbers here, so the search takes for the same state what has the same key:
the discrete values that decide what comes next, and positions as coarse as the places that the events know. It goes on
from the first state that it finds of each key, so it is complete for the keys, not for every number. In every state it
also puts everything right, as a person would, and the arm has to obey a move again.

An arm that can be led is searched with every lie, also with one that begins while a recovery counts, or is there when a
person recovers it. One that cannot be led is not: its setpoints then go to where it is measured, so that setpoint and
measurement agree and nothing can tell. Its controller, once it was stopped and starts where the arm really stands, is
told to jump to the setpoint. docs/local_safety.md says so to whoever has such an arm.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_client.loops.arm_watch import BEHIND_FOR_S
from rosa_client.motion import following
from rosa_client.motion.arm_orders import Hold, MoveTo, Play
from rosa_client.motion.chunk_player import ALIVE_WITHIN_S
from rosa_client.motion.following import OFF_RAD, Follow
from rosa_client.motion.measurement import SILENT_S
from rosa_sim.explore.arm_world import (
    HIGH,
    HOME,
    LOW,
    NOT_FINITE,
    PERIOD_S,
    SILENCE,
    STAMP_BACK,
    STAMP_STANDS,
    WRONG_ONCE,
    ArmWorld,
)
from rosa_sim.explore.search import SearchResult, Step, breadth_first

Array = NDArray[np.float64]

ARM_CELLS = {"arm that can be led": True, "arm that cannot be led": False}
SHORT, CONFIRMS = 6, 30  # control periods: an event; enough to confirm a position
BEGINS = 50  # control periods in which an arm is seen to obey a move
BACK_WITHIN = 600  # control periods in which an arm obeys once everything is right
AWAY = np.array([0.6, 0.3])  # the place that is ordered, and back home from it
GUIDED = np.array([-0.15, 0.15])  # where it is guided by hand
CLOSE_RAD = 0.05

Event = tuple[str, Callable[[ArmWorld], None]]


def search_arm(
    name: str,
    max_states: int = 10_000_000,
    max_problems: int = 1,
    progress: Callable[[SearchResult, int], None] = lambda found, waiting: None,
    story: Sequence[str] = (),
) -> SearchResult:
    """Search everything that can happen to the arm of the cell `name`, from rest at home after the events `story`."""
    found = SearchResult()
    longest = 0

    def look(world: ArmWorld) -> Iterator[str]:
        nonlocal longest
        why, periods = put_right(world.copy())
        longest = max(longest, periods)
        if why:
            yield f"everything is right again, but {why}"

    with _Watch(found):
        first = ArmWorld.begin(leads=ARM_CELLS[name])
        for event in story:
            dict(possible(first))[event](first)
        breadth_first(found, first, key, look, _steps, max_states, max_problems, progress)
    found.longest = {"all is put right": longest}
    return found


def _steps(world: ArmWorld) -> Iterator[Step[ArmWorld]]:
    for event, happen in possible(world):
        after = world.copy()
        try:
            happen(after)
        except Exception as error:
            after.problems.append(f"raised {type(error).__name__}: {error}")
        yield event, after, list(dict.fromkeys(after.problems))


# -- what can happen --------------------------------------------------------------------------------------------------


def possible(world: ArmWorld) -> Iterator[Event]:
    """Every event that can happen now and may change something."""
    arm, player = world.arm, world.player
    yield "a while passes", lambda w: w.pass_time(CONFIRMS)
    yield "the sender is silent", lambda w: w.pass_time(SHORT + round(ALIVE_WITHIN_S / PERIOD_S), alive=False)
    for measured in (WRONG_ONCE, STAMP_STANDS, STAMP_BACK, NOT_FINITE, SILENCE):
        yield measured, _measured(measured, SHORT)
    for measured in (STAMP_STANDS, SILENCE):
        yield f"{measured} for long", _for_long(measured)
    lies = "is measured where it is again" if arm.lies else "is measured elsewhere from now on"
    if arm.lies or arm.leads or not world.may_return:  # see above
        yield lies, _then(_lie)
    for name, what in orders(world):
        yield name, _then(partial(ArmWorld.order, what=what))
    if player.emergency_stop.latched:
        yield "the stop is released", _then(lambda w: w.player.release_emergency_stop("Ada", "test"))
    yield "the stop is pressed", _then(ArmWorld.press)
    if arm.leads and player._following.gets is Follow.NOTHING:
        yield "it is recovered, and the stop is pressed at once", _then(_press_as_it_is_led)
    if arm.leads or not arm.lies:
        yield "a person recovers it", _then(ArmWorld.recover)
    if world.may_return and player._following.gets in (Follow.STOPPING, Follow.NOTHING):
        yield "nothing comes of the recovery in time", _then(_expires)
    if player._off_duty is not None:
        yield "its node is activated", _then(lambda w: w.player.go_on_duty())
    else:
        yield "its node is deactivated", _then(ArmWorld.go_off_duty)
    if arm.fault:
        yield "its controller starts", _then(ArmWorld.start_controller)
        yield "it is guided by hand", _then(lambda w: _put(w, GUIDED))
        yield "it is put back", _then(lambda w: _put(w, w.player._filter.setpoint))
    else:
        yield "its controller stops", _then(ArmWorld.stop_controller)
    yield "it is let go" if arm.held else "something holds it", _then(_hold)


def orders(world: ArmWorld) -> Iterator[tuple[str, Any]]:
    """A move and a chunk to whichever place it is not at, and a hold."""
    here = world.player._filter.setpoint
    there = HOME if np.abs(here - AWAY).max() < np.abs(here - HOME).max() else AWAY
    yield "a move is ordered", MoveTo(there, 0.04)
    yield "a chunk is ordered", Play([[*AWAY / 2, 0.04], [*there, 0.04]], 0.1)
    yield "it is told to hold", Hold()


def _then(happens: Callable[[ArmWorld], Any]) -> Callable[[ArmWorld], None]:
    def happen(world: ArmWorld) -> None:
        happens(world)
        world.pass_time(SHORT)

    return happen


def _measured(measured: str, periods: int) -> Callable[[ArmWorld], None]:
    return lambda world: world.pass_time(periods, measured)


def _for_long(measured: str) -> Callable[[ArmWorld], None]:
    """Until it is a fault. What is heard is made older instead of letting the time pass."""

    def happen(world: ArmWorld) -> None:
        world.pass_time(SHORT, measured)
        world.watch._check._heard_s -= SILENT_S
        world.watch._check._taken_s -= SILENT_S
        world.pass_time(SHORT, measured)

    return happen


def _press_as_it_is_led(world: ArmWorld) -> None:
    """In the control period between the decision to lead it on and the command."""
    world.recover()
    for _ in range(SHORT):
        if world.player._following._leading is not None:
            break
        world.period()
    world.press()


def _lie(world: ArmWorld) -> None:
    world.arm.lies = not world.arm.lies


def _hold(world: ArmWorld) -> None:
    world.arm.held = not world.arm.held


def _expires(world: ArmWorld) -> None:
    world.player._following._recover_until_s = 0.0
    world.recovery_ends()


def _put(world: ArmWorld, q_rad: Array) -> None:
    """A hand moves the arm there, slowly enough to be believed."""
    begin = world.arm.true_rad
    for share in np.linspace(0.0, 1.0, CONFIRMS)[1:]:
        world.arm.true_rad = begin + share * (np.clip(q_rad, LOW, HIGH) - begin)
        world.period()


# -- what is the same state -------------------------------------------------------------------------------------------


def key(world: ArmWorld) -> Hashable:
    """What decides what comes next, and positions by the places that the events know.

    Left out is what no decision looks at: which of the faults of a measurement it is, and why an order was refused.
    Samples that count after a fault are counted only within an event: some events are long enough to confirm.
    """
    arm, player, check = world.arm, world.player, world.watch._check
    follow, now_s = player._following, world.arm.now_s
    setpoint, trusted = player._filter.setpoint, check.trusted
    assert trusted is not None  # from the start on
    cause = "" if player._fault is None else player._fault.cause
    waits = cause if cause in ("", following.ELSEWHERE, following.RETURNS) else "faulty"
    return (
        (arm.held, arm.lies, arm.fault, player.emergency_stop.latched, player._off_duty is not None, waits),
        (player.state, player._stopping, player._filter.settled),
        (follow.gets, follow._let_go, follow._leading is not None),
        (now_s <= follow._recover_until_s, now_s < follow._arrives_s),
        (
            check.fault is not None,
            world.guard.refusal is not None,
            now_s - world.watch._behind_s < BEHIND_FOR_S,
        ),
        (world.may_move, world.may_return, now_s <= world.stops_until_s),
        (_place(setpoint), _place(arm.true_rad)),
        tuple(bool(np.abs(q_rad - setpoint).max() <= OFF_RAD) for q_rad in (trusted, arm.true_rad)),
    )


def _place(q_rad: Array) -> str:
    places = {"home": HOME, "away": AWAY, "guided": GUIDED}
    return next(
        (name for name, place in places.items() if np.abs(q_rad - place).max() <= CLOSE_RAD), "between"
    )


# -- everything is put right ------------------------------------------------------------------------------------------


def put_right(world: ArmWorld) -> tuple[str, int]:
    """Measurements, controller, stop and duty are right again and a person recovers the arm, or, where it says that it
    has to be put back, does that. Why it does not obey a move then, and in how many control periods it begins to."""
    arm, player = world.arm, world.player
    arm.lies = arm.held = False
    if arm.fault:
        world.start_controller()
    player.release_emergency_stop("Ada", "test")
    player.go_on_duty()
    world.recover()
    for periods in range(BACK_WITHIN):
        world.period()
        if world.problems:
            return world.problems[0], periods
        if periods >= SHORT and player._fault is None:
            return _obeys(world), periods
        if "put it back" in player.fault and player.fault_cause == following.ELSEWHERE:
            world.stop_controller()
            _put(world, player._filter.setpoint)
            world.start_controller()
    return f"it still says {player.fault_cause}: {player.fault}", BACK_WITHIN


def _obeys(world: ArmWorld) -> str:
    """Why it does not carry out a move; empty when it does."""
    _, move = next(orders(world))
    if (refusal := world.order(move)) is not None:
        return f"it refuses a move: {refusal}"
    away_rad = np.abs(move.q_rad - world.arm.true_rad).max()
    for _ in range(BEGINS):
        world.period()
        if world.problems:
            return world.problems[0]
        if np.abs(move.q_rad - world.arm.true_rad).max() < away_rad - OFF_RAD:
            return ""
    return f"it takes a move to {move.q_rad} and stands at {world.arm.true_rad}"


class _Watch:
    """Notes every row of the table of `following.py` that is used."""

    def __init__(self, found: SearchResult) -> None:
        self._rows = found.rows
        self._before = following.after

    def __enter__(self) -> None:
        def noting(state: Follow, event: following.Event) -> Enum:
            turned = self._before(state, event)
            self._rows.add((state, event))
            return turned

        following.after = noting  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        following.after = self._before
