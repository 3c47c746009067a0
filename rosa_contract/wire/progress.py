"""Where a robot is in its task: what the server's queue has to know of the robot's side (Kairos 3.2.1, 4).

A task is named by a number, begins with the first request that carries it, and ends with the message `TaskEnds`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rosa_contract.wire.rules import ID, Number, Text, declared

MAX_ACTS_MS = 600_000.0
# Steps of a plan: a monitor is told those of its task, and answers which are done, each on its own line.
MAX_STEPS = 16  # the oldest are forgotten
STEP_DONE = "done: "  # before a step that is done
MAX_KIND_CHARS = 128

# How a task ends. After the first two the robot has done what it could; the others say nothing about its length.
DONE, FAILED, TIMED_OUT, ABORTED, CANCELED = "done", "failed", "timed_out", "aborted", "canceled"
OUTCOMES = (DONE, FAILED, TIMED_OUT, ABORTED, CANCELED)


@dataclass(frozen=True)
class Progress:
    """A robot's progress in its task, as sent with a request."""

    task: int = declared(ID, "number of the task; the robot's next task has another number")
    round: int = declared(ID, "number of action chunks already received in this task; 0: it is starting")
    acts_ms: float = declared(
        Number(0.0, MAX_ACTS_MS),
        "how long the robot can still act on its current chunk when the request leaves",
    )
    kind: str = declared(
        Text(MAX_KIND_CHARS),
        "tasks of the same kind take about the same time; empty: all tasks of this name do",
        "",
    )
