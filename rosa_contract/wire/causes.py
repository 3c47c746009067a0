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
    "no_worker": UNAVAILABLE,
    "robot_left": UNAVAILABLE,
    "shutting_down": UNAVAILABLE,
    "unknown_component": INVALID,
    "camera_missing": INVALID,
    "unexpected_image": INVALID,
    "wrong_image_shape": INVALID,
    "state_missing": INVALID,
    "wrong_state_shape": INVALID,
    "input_rejected": INVALID,
    **dict.fromkeys(CODEC_CAUSES, INVALID),
    "model_error": FAILED,
    "bad_output": FAILED,
    "workers_lost": FAILED,
    "cancelled": CANCELLED,
}
MEANINGS = {
    "budget_spent": "the time left until the deadline ran out before a worker took the request",
    "fresher_request": "a newer request of the same robot and component took its place in the queue",
    "queue_full": "the queue of its replica is full",
    "no_worker": "its replica had no warm worker before the deadline",
    "robot_left": "the robot said goodbye, sent a hello again, or fell silent",
    "shutting_down": "the server is shutting down",
    "unknown_component": "the task has no such component",
    "camera_missing": "the request lacks a camera that the model needs",
    "unexpected_image": "the request has a camera that the model does not take, or two pictures of one camera",
    "wrong_image_shape": "a picture does not have the size that the model needs",
    "state_missing": "the request lacks a state that the model needs",
    "wrong_state_shape": "a state does not have the number of values that the model needs",
    "input_rejected": "the model's own check of its input failed",
    **CODEC_CAUSES,
    "model_error": "the model raised an error",
    "bad_output": "the model's output is not finite or cannot be encoded",
    "workers_lost": "every worker that took the request died",
    "cancelled": "the robot cancelled the request",
}

# Why a robot, or a message of it, is refused.
REFUSALS = {
    "unknown_task": "the server has no such task",
    "camera_missing": "a model of the task needs a camera that the robot does not have",
    "wrong_image_shape": "a model of the task needs images of a different size",
    "state_missing": "a model of the task needs a state that the robot does not have",
    "wrong_state_shape": "a model of the task needs a state with a different number of values",
    "wrong_actions": "a model of the task answers in an action space that the robot does not support",
    "not_ready": "models are still loading, or the server is shutting down; retry the hello",
    "hello_required": "the gateway does not know this connection, for example after a restart; send a hello again",
    "robot_id_taken": "another connection is using this robot name",
    "removed": "an operator removed this robot with `rosa remove`; `rosa admit` readmits it",
    "wrong_key": "the connection's key belongs to another robot",
    "not_admitted": "all planned slots of the task are taken, and no server has room for another robot",
    "not_planned": "the task is not in robot_fleet, so the schedule has no slots for it",
    "admission_off": "all planned slots of the task are taken, and this server admits planned robots only",
    **CODEC_CAUSES,
}


def fits(status: str, cause: str) -> bool:
    """Whether a response may have this status and this cause: none with "ok", one of `CAUSES` with any other."""
    return cause == "" if status == OK else CAUSES.get(cause) == status
