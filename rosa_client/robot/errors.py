"""How a call of the Python client fails. Programs compare `cause`; the words beside it are for people."""

from __future__ import annotations

from typing import ClassVar

from rosa_contract.errors import CausedError
from rosa_contract.wire.messages import CAUSES, REFUSALS

DEADLINE_MISSED = "deadline_missed"


class RobotError(CausedError):
    """A call that returned no usable answer; `cause` says why."""

    CAUSES: ClassVar = {
        DEADLINE_MISSED: "no answer arrived within the deadline; a late one is never used",
        "bad_observation": "the observation cannot be sent, or differs in structure from earlier ones",
        "call_in_flight": "the component was called again while a call was still in flight",
        "no_actions": "the answer has no `actions` array, or its shape is not (horizon, values)",
        "bad_keys": "the robot's keys are missing or unusable",
        "closed": "the robot was closed, or belongs to the parent of this forked process",
        "no_answer": "no gateway answers at this address",
        "silent": "the gateway answered before but has been silent for several seconds",
        "disconnected": "the connection to the gateway was lost; the robot reconnects by itself",
        "hung_up": "the server closed the handshake; it may require keys",
        "mismatch": "one side uses keys and the other does not",
        "refused": "the server refused this robot's key",
        **dict.fromkeys(
            REFUSALS, "the gateway refused this robot; see `rosa_contract.wire.messages.REFUSALS`"
        ),
        **dict.fromkeys(CAUSES, "the call was refused or failed; see `rosa_contract.wire.messages.CAUSES`"),
    }


class DeadlineMissed(RobotError, TimeoutError):
    """No answer within the deadline. Hold the arm, or call again with a fresh observation."""

    def __init__(self, words: str) -> None:
        super().__init__(DEADLINE_MISSED, words)
