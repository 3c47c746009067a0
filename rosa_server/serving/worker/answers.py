"""What becomes of a model's answer before it leaves the worker: joined, given a horizon, encoded, or refused."""

from __future__ import annotations

import traceback
from dataclasses import replace

from rosa_contract.errors import CodecError
from rosa_contract.kinematics.joining import joined
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.horizon import MAX_REASON_CHARS
from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.horizon import choose
from rosa_server.models.registry import BackendError

Refusal = tuple[str, str]  # (one of `messages.CAUSES`, reason)
Answer = m.Output | Refusal
Outcome = bytes | Refusal  # an encoded output, or why there is none
JOINTS = "joint_position"
MAX_WORDS = 500
MAX_TRACE = 8000  # characters; the innermost frames come last
CANCELLED: Refusal = ("cancelled", "nobody waits for it any more")


def finished(asked: ModelInput, output: ModelOutput, inpaints: bool) -> Answer:
    """What the robot gets of the model's output, or why it gets nothing; the rest of the batch is not concerned.

    Its actions join the chunk that the robot plays; where the request names a policy, a horizon is chosen (Kairos 4).
    """
    try:
        arrays, frozen = output.arrays, 0
        if asked.overlap is not None and "actions" in arrays:
            frozen = asked.overlap.frozen
            if not inpaints:
                arrays = joined(arrays, asked.overlap, _grippers(asked, arrays["actions"].shape[-1]))
        plain = m.Output(arrays, output.verdict, output.text)
        if asked.horizon is None:
            return plain
        chosen = choose(asked.horizon, output, frozen)
        return replace(plain, horizon=chosen.steps, horizon_reason=chosen.reason[:MAX_REASON_CHARS])
    except Exception as error:  # of a policy or an output that may be anybody's
        return failure(error, asked)


def _grippers(asked: ModelInput, columns: int) -> int:
    """How many of an answer's columns are grippers': those after the joints that the robot told."""
    joints = asked.state.get(JOINTS)
    return 1 if joints is None else min(max(columns - joints.size, 0), columns)


def encoded(answer: Answer) -> Outcome:
    """The output as one frame, or why it cannot be sent."""
    if isinstance(answer, tuple):
        return answer
    try:
        return codec.encode_output(answer)
    except CodecError as error:
        return "bad_output", f"the model's output cannot be used: {error}"
    except Exception as error:  # of an output that is nearly an array
        return "bad_output", f"the model's output cannot be used: {short(error)}"


def failure(error: Exception, asked: ModelInput) -> Refusal:
    """What `Backend.infer` raises: an input that does not fit, a deadline, or anything else: a fault of the model.

    Whatever an engine raises of an input that was cancelled, nobody waits for it.
    """
    if asked.cancellation.cancelled:
        return CANCELLED
    if isinstance(error, TimeoutError):
        return "budget_spent", short(error)
    refused = isinstance(error, ValueError) and not isinstance(
        error, BackendError
    )  # of a server behind it, say
    return ("input_rejected" if refused else "model_error"), short(error)


def short(error: BaseException) -> str:
    """An exception in words that can be sent and logged: it may be anybody's, also one that cannot be shown."""
    try:
        words = str(error)
    except Exception:
        words = "(it cannot be shown)"
    return f"{type(error).__name__}: {words}"[:MAX_WORDS].encode(errors="replace").decode()


def trace(error: BaseException) -> str:
    """Where an exception was raised, for the log."""
    return "".join(traceback.format_tb(error.__traceback__))[-MAX_TRACE:]
