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
    """What a request says about its robot's task."""

    task: int = declared(ID, "its number; the robot's next task has another one")
    round: int = declared(ID, "chunks of actions that this task has had before; 0: it begins")
    acts_ms: float = declared(
        Number(0.0, MAX_ACTS_MS), "how long the robot still acts on what it has, when the request leaves"
    )
    kind: str = declared(
        Text(MAX_KIND_CHARS),
        "tasks of one kind are about equally long; empty: all tasks of this name are",
        "",
    )
