"""How a request ends and why, and why a robot is refused: the closed lists that programs compare."""

from __future__ import annotations

from rosa_contract.errors import CODEC_CAUSES

# How a request ends. Every accepted request gets exactly one of these.
OK = "ok"
EXPIRED = "expired"  # its budget was spent before a worker took it
REPLACED = "replaced"  # a fresher observation of the same robot and component took its place in the queue
OVERLOADED = "overloaded"  # the queue of its replica is full
UNAVAILABLE = "unavailable"  # no worker for its model, and none came within the budget
INVALID = "invalid"  # the request does not fit what the model takes
FAILED = "failed"  # the model raised an error, or its output cannot be used
CANCELLED = "cancelled"  # its robot waits for it no more; only a robot that sends `Cancel` gets this
STATUSES = (OK, EXPIRED, REPLACED, OVERLOADED, UNAVAILABLE, INVALID, FAILED, CANCELLED)

# Why a request did not end with "ok", and the status that each cause belongs to.
CAUSES = {
    "budget_spent": EXPIRED,
    "fresher_request": REPLACED,
    "queue_full": OVERLOADED,
    "no_worker": UNAVAILABLE,  # the replica that it is routed to had no warm worker within its budget
    "robot_left": UNAVAILABLE,  # said bye, said hello again, or fell silent
    "shutting_down": UNAVAILABLE,
    "unknown_component": INVALID,  # the task has no such component
    "camera_missing": INVALID,
    "unexpected_image": INVALID,  # of a camera that the model does not take, or a second one of the same camera
    "wrong_image_shape": INVALID,
    "state_missing": INVALID,
    "wrong_state_shape": INVALID,
    "input_rejected": INVALID,  # the model's own check of its input failed
    **dict.fromkeys(CODEC_CAUSES, INVALID),
    "model_error": FAILED,
    "bad_output": FAILED,  # not finite, or not to be encoded
    "workers_lost": FAILED,  # every worker that took it died
    "cancelled": CANCELLED,
}

# Why a robot, or a message of it, is refused.
REFUSALS = {
    "unknown_task": "the server has no such task",
    "camera_missing": "a model of the task needs a camera that the robot does not have",
    "wrong_image_shape": "a model of the task needs images of another size",
    "state_missing": "a model of the task needs a state that the robot does not have",
    "wrong_state_shape": "a model of the task needs a state with another number of values",
    "wrong_actions": "a model of the task answers in a space that the robot does not carry out",
    "not_ready": "models are still loading, or the server is shutting down: say hello again",
    "hello_required": "the gateway does not know this connection, for instance after a restart: say hello again",
    "robot_id_taken": "another connection speaks under this name",
    "removed": "a person has taken this robot out of the server with `rosa remove`; `rosa admit` lets it come back",
    "wrong_key": "the key of this connection belongs to another robot",
    "not_admitted": "every planned slot of the task is taken, and no server has room for one more robot",
    "not_planned": "the task is not in robot_fleet, so the schedule has nothing for it",
    "admission_off": "every planned slot of the task is taken, and this server admits planned robots only",
    **CODEC_CAUSES,
}


def fits(status: str, cause: str) -> bool:
    """Whether a response may have this status and this cause: none with "ok", one of `CAUSES` with any other."""
    return cause == "" if status == OK else CAUSES.get(cause) == status
