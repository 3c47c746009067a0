"""What a robot does with its task: one literal transition table. Three small ones are in `side_machines.py`."""

from __future__ import annotations

from collections.abc import Mapping

from rosa_client.runtime.machines.machine import Symbol


class State(Symbol):
    """What the robot is doing with its task."""

    IDLE = "idle"  # no task
    CONNECTING = "connecting"  # waits for the server's welcome and for its own sensors
    INFERRING = "inferring"  # the arm holds while System 2, then System 1, answer
    EXECUTING = "executing"  # the arm plays an action chunk; asynchronous: and the next one is inferred
    HOLDING = "holding"  # stopped by a fallback, until what caused it clears
    RETURNING = "returning"  # moves to the safe pose, then plans again
    RESETTING = "resetting"  # moves to the initial pose for another attempt, leg by leg
    WAITING_FOR_HUMAN = "waiting_for_human"  # escalated: nothing moves before an operator decides
    CLEARING = "clearing"  # moves to the safe pose, to wait there for a human


class Event(Symbol):
    """What can happen to a task."""

    START = "start"
    READY = "ready"
    ACTIONS = "actions"
    CHUNK_ENDED = "chunk_ended"
    STOP = "stop"
    CLEARED = "cleared"
    RETURN = "return"
    NEXT_LEG = "next_leg"
    ARRIVED = "arrived"
    RETRY = "retry"
    RETREAT = "retreat"
    ESCALATE = "escalate"
    RESUME = "resume"
    CLEAR_THE_CELL = "clear_the_cell"
    FINISH = "finish"


_S, _E = State, Event

TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (_S.IDLE, _E.START): _S.CONNECTING,
    (_S.CONNECTING, _E.READY): _S.INFERRING,
    (_S.CONNECTING, _E.ESCALATE): _S.WAITING_FOR_HUMAN,
    (_S.CONNECTING, _E.FINISH): _S.IDLE,
    (_S.INFERRING, _E.ACTIONS): _S.EXECUTING,
    (_S.INFERRING, _E.STOP): _S.HOLDING,
    (_S.INFERRING, _E.RETURN): _S.RETURNING,
    (_S.INFERRING, _E.RETRY): _S.RESETTING,
    (_S.INFERRING, _E.RETREAT): _S.CLEARING,
    (_S.INFERRING, _E.ESCALATE): _S.WAITING_FOR_HUMAN,
    (_S.INFERRING, _E.FINISH): _S.IDLE,
    (_S.EXECUTING, _E.ACTIONS): _S.EXECUTING,
    (_S.EXECUTING, _E.CHUNK_ENDED): _S.INFERRING,
    (_S.EXECUTING, _E.STOP): _S.HOLDING,
    (_S.EXECUTING, _E.RETURN): _S.RETURNING,
    (_S.EXECUTING, _E.RETRY): _S.RESETTING,
    (_S.EXECUTING, _E.RETREAT): _S.CLEARING,
    (_S.EXECUTING, _E.ESCALATE): _S.WAITING_FOR_HUMAN,
    (_S.EXECUTING, _E.FINISH): _S.IDLE,
    (_S.HOLDING, _E.CLEARED): _S.INFERRING,
    (_S.HOLDING, _E.RETURN): _S.RETURNING,
    (_S.HOLDING, _E.RETRY): _S.RESETTING,
    (_S.HOLDING, _E.RETREAT): _S.CLEARING,
    (_S.HOLDING, _E.ESCALATE): _S.WAITING_FOR_HUMAN,
    (_S.HOLDING, _E.FINISH): _S.IDLE,
    (_S.RETURNING, _E.ARRIVED): _S.HOLDING,
    (_S.RETURNING, _E.STOP): _S.HOLDING,
    (_S.RETURNING, _E.RETREAT): _S.CLEARING,
    (_S.RETURNING, _E.ESCALATE): _S.WAITING_FOR_HUMAN,
    (_S.RETURNING, _E.FINISH): _S.IDLE,
    (_S.RESETTING, _E.NEXT_LEG): _S.RESETTING,
    (_S.RESETTING, _E.STOP): _S.HOLDING,
    (_S.RESETTING, _E.RETURN): _S.RETURNING,
    (_S.RESETTING, _E.RETREAT): _S.CLEARING,
    (_S.RESETTING, _E.ARRIVED): _S.CONNECTING,
    (_S.RESETTING, _E.ESCALATE): _S.WAITING_FOR_HUMAN,
    (_S.RESETTING, _E.FINISH): _S.IDLE,
    (_S.WAITING_FOR_HUMAN, _E.RESUME): _S.CONNECTING,
    (_S.WAITING_FOR_HUMAN, _E.RETRY): _S.RESETTING,
    (_S.WAITING_FOR_HUMAN, _E.CLEAR_THE_CELL): _S.CLEARING,
    (_S.WAITING_FOR_HUMAN, _E.FINISH): _S.IDLE,
    (_S.CLEARING, _E.ARRIVED): _S.WAITING_FOR_HUMAN,
    (_S.CLEARING, _E.ESCALATE): _S.WAITING_FOR_HUMAN,
    (_S.CLEARING, _E.FINISH): _S.IDLE,
}

# Time in these does not count as the task's.
NOT_TIMED = frozenset({State.IDLE, State.WAITING_FOR_HUMAN, State.CLEARING})
MOVES = frozenset({State.RETURNING, State.RESETTING, State.CLEARING})  # to a named pose
MAY_MOVE = MOVES | {State.EXECUTING}
