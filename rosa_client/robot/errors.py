"""How a call of the Python client fails. Programs compare `cause`; the words beside it are for people."""

from __future__ import annotations

from typing import ClassVar

from rosa_contract.errors import CausedError
from rosa_contract.wire.messages import CAUSES, REFUSALS

DEADLINE_MISSED = "deadline_missed"


class RobotError(CausedError):
    """A call without a usable answer."""

    CAUSES: ClassVar = {
        DEADLINE_MISSED: "no answer came within the deadline; one that comes later is never used",
        "bad_observation": "an observation that cannot be sent, or another kind of observation than before",
        "call_in_flight": "the component was called again before its call had ended",
        "no_actions": "the answer has no array `actions`, or one that is not (horizon, values)",
        "bad_keys": "the robot's keys are missing or unusable",
        "closed": "the robot was closed, or is another process's, from which this one was forked",
        "no_answer": "nothing is heard from a gateway at this address",
        "silent": "the gateway was heard once, but not for some seconds",
        "disconnected": "the connection to the gateway has ended; the robot makes another one",
        "hung_up": "the server ended the handshake; it may demand keys",
        "mismatch": "one side has keys, the other has none",
        "refused": "the server refused this robot's key",
        **dict.fromkeys(
            REFUSALS, "the gateway refused this robot; `rosa_contract.wire.messages.REFUSALS` says why"
        ),
        **dict.fromkeys(
            CAUSES, "the call was refused or failed; `rosa_contract.wire.messages.CAUSES` says how"
        ),
    }


class DeadlineMissed(RobotError, TimeoutError):
    """No answer within the deadline. The arm has to do without: hold, or call again with a fresh observation."""

    def __init__(self, words: str) -> None:
        super().__init__(DEADLINE_MISSED, words)
