"""Three small machines that run beside the task's: what safety last said, what was interrupted, how far a move is.

Each is one literal table, as the task's own (`task_machine.py`); the search of `rosa_sim/explore` walks all four.
"""

from __future__ import annotations

from collections.abc import Mapping

from rosa_client.runtime.machines.machine import Symbol

# -- safety -----------------------------------------------------------------------------------------------------------


class Safety(Symbol):
    """What the safety component last said. No motion of an attempt begins before it has said safe."""

    UNGUARDED = "unguarded"  # the task has no safety component
    UNKNOWN = "unknown"  # nothing yet in this attempt
    SAFE = "safe"
    UNSAFE = "unsafe"


class SafetyEvent(Symbol):
    """What changes it."""

    ASK_AGAIN = "ask_again"  # an attempt begins, or an operator has decided: earlier verdicts no longer count
    SAYS_SAFE = "says_safe"
    SAYS_UNSAFE = "says_unsafe"


_A, _V = Safety, SafetyEvent

SAFETY_VERDICTS: Mapping[tuple[Safety, SafetyEvent], Safety] = {
    (_A.UNGUARDED, _V.ASK_AGAIN): _A.UNGUARDED,
    (_A.UNKNOWN, _V.ASK_AGAIN): _A.UNKNOWN,
    (_A.UNKNOWN, _V.SAYS_SAFE): _A.SAFE,
    (_A.UNKNOWN, _V.SAYS_UNSAFE): _A.UNSAFE,
    (_A.SAFE, _V.ASK_AGAIN): _A.UNKNOWN,
    (_A.SAFE, _V.SAYS_SAFE): _A.SAFE,
    (_A.SAFE, _V.SAYS_UNSAFE): _A.UNSAFE,
    (_A.UNSAFE, _V.ASK_AGAIN): _A.UNKNOWN,
    (_A.UNSAFE, _V.SAYS_SAFE): _A.SAFE,
    (_A.UNSAFE, _V.SAYS_UNSAFE): _A.UNSAFE,
}
MAY_INFER = frozenset({Safety.UNGUARDED, Safety.SAFE})

# -- what was interrupted ---------------------------------------------------------------------------------------------


class Unfinished(Symbol):
    """A move that was interrupted and begins again: the return when the danger is over, the reset when nothing holds
    the arm any more."""

    NOTHING = "nothing"
    RESET = "reset"
    RETURN = "return"
    RETURN_THEN_RESET = "return_then_reset"


class UnfinishedEvent(Symbol):
    """What changes it."""

    RESET_INTERRUPTED = "reset_interrupted"
    RETURN_INTERRUPTED = "return_interrupted"  # or put off: it may not begin in a danger
    RETURN_BEGINS = "return_begins"
    RESET_BEGINS = "reset_begins"
    DROP = "drop"  # an operator or the end of the task comes first


_U, _I = Unfinished, UnfinishedEvent

UNFINISHED: Mapping[tuple[Unfinished, UnfinishedEvent], Unfinished] = {
    (_U.NOTHING, _I.RESET_INTERRUPTED): _U.RESET,
    (_U.NOTHING, _I.RETURN_INTERRUPTED): _U.RETURN,
    (_U.NOTHING, _I.RETURN_BEGINS): _U.NOTHING,
    (_U.NOTHING, _I.RESET_BEGINS): _U.NOTHING,
    (_U.NOTHING, _I.DROP): _U.NOTHING,
    (_U.RESET, _I.RETURN_INTERRUPTED): _U.RETURN_THEN_RESET,
    (_U.RESET, _I.RETURN_BEGINS): _U.RESET,
    (_U.RESET, _I.RESET_BEGINS): _U.NOTHING,
    (_U.RESET, _I.DROP): _U.NOTHING,
    (_U.RETURN, _I.RETURN_INTERRUPTED): _U.RETURN,
    (_U.RETURN, _I.RETURN_BEGINS): _U.NOTHING,
    (_U.RETURN, _I.DROP): _U.NOTHING,
    (_U.RETURN_THEN_RESET, _I.RETURN_INTERRUPTED): _U.RETURN_THEN_RESET,
    (_U.RETURN_THEN_RESET, _I.RETURN_BEGINS): _U.RESET,
    (_U.RETURN_THEN_RESET, _I.DROP): _U.NOTHING,
}
RETURN_IS_OWED = frozenset({Unfinished.RETURN, Unfinished.RETURN_THEN_RESET})

# -- one leg of a move ------------------------------------------------------------------------------------------------


class LegProgress(Symbol):
    """How far the arm is on the present leg of a move to a named pose."""

    UNDER_WAY = "under_way"
    ARRIVED = "arrived"  # it stays there for a while; also before the first move


class LegEvent(Symbol):
    """What changes it."""

    ORDERED = "ordered"  # the next leg, or the same one again because the arm cut it short
    AT_REST = "at_rest"


LEG_PROGRESS: Mapping[tuple[LegProgress, LegEvent], LegProgress] = {
    (LegProgress.UNDER_WAY, LegEvent.ORDERED): LegProgress.UNDER_WAY,
    (LegProgress.UNDER_WAY, LegEvent.AT_REST): LegProgress.ARRIVED,
    (LegProgress.ARRIVED, LegEvent.ORDERED): LegProgress.UNDER_WAY,
}
