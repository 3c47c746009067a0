"""A worker in the shadow: it answers copies of calls, and no robot hears of it.

A copy is made when its call is given to a worker. It waits until that call is answered, nothing waits in the queue,
and the worker beside the shadow holds nothing; a copy that is late before that is dropped. The copies of one batch wait
at a time. So no decision about a real call depends on a copy; the worker beside it may share a GPU with the rest of one
batch of copies, no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from rosa_contract.errors import CodecError
from rosa_contract.wire import messages as m
from rosa_contract.wire.codec import decode_output
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.workers.comparing import Likeness, WorkerTally
from rosa_server.serving.core.workers.worker_state import Batch


@dataclass(slots=True)
class _Copied:
    """One call, and what its robot got."""

    call: Call
    cause: str = ""
    output: Any = None
    ended_s: float = math.inf  # infinite: not yet
    run_ms: float = 0.0


class Shadow:
    """One worker in the shadow, and how it does."""

    def __init__(self, worker_id: str, model: str, share: float) -> None:
        """`share`: of the robots, at least one; always the same ones."""
        self.worker_id, self.model = worker_id, model
        self.ready: m.WorkerReady | None = None  # what it has announced
        self.new, self.old, self.likeness = WorkerTally(), WorkerTally(), Likeness()
        self.dropped = 0  # copies that were late before anybody had time for them
        self.passed_over = 0  # calls that came while others waited
        self.closed = False  # it gets no more copies
        self._share, self._first = share, ""
        self._waiting: list[_Copied] = []
        self._running: dict[int, _Copied] = {}  # by the ticket of the copy

    def chosen(self, robot: str) -> bool:
        """Whether calls of this robot are copied."""
        self._first = self._first or robot
        return robot == self._first or crc32(robot.encode()) < self._share * 2**32

    def given(self, calls: Sequence[Call], room: int) -> None:
        """A worker of its model was given these calls. `room`: copies that it may be given together."""
        chosen = [call for call in calls if self.chosen(call.robot_id)]
        if self._waiting or self.closed:
            self.passed_over += len(chosen)
            return
        self._waiting = [_Copied(call) for call in chosen[:room]]

    def answered(self, now_s: float, call: Call, cause: str, output: Any, run_ms: float) -> None:
        """A worker has answered a call."""
        for one in self._waiting:
            if one.call is call:
                one.cause, one.output, one.ended_s, one.run_ms = cause, output, now_s, run_ms

    def next(self, now_s: float, free: bool, new_ticket: Callable[[], int]) -> list[Call]:
        """The copies to give to it now. `free`: nobody else wants it, or the worker beside it."""
        late = [one for one in self._waiting if one.call.deadline_s <= now_s]
        if late:
            self.dropped += len(late)
            self._waiting = [one for one in self._waiting if one.call.deadline_s > now_s]
        if not free or not self._waiting or any(one.ended_s > now_s for one in self._waiting):
            return []
        self._running.clear()  # what it was given before it ended came to nothing
        calls = []
        for one in self._waiting:
            call, later_s = one.call, now_s - one.call.dispatched_s
            # The times that its call had when it was given to a worker, moved to now.
            copy = replace(
                call,
                ticket=new_ticket(),
                attempts=0,
                worker_id="",
                arrived_s=call.arrived_s + later_s,
                deadline_s=call.deadline_s + later_s,
            )
            self._running[copy.ticket] = one
            calls.append(copy)
        self._waiting = []
        return calls

    @property
    def due_s(self) -> float:
        """When a copy that waits is late."""
        return min((one.call.deadline_s for one in self._waiting), default=math.inf)

    def ran(self, now_s: float, batch: Batch, done: m.Executed) -> None:
        """It has answered: laid beside what the robots got, and dropped."""
        for copy, (cause, _), output in zip(batch.calls, done.errors, done.outputs, strict=True):
            one = self._running.pop(copy.ticket, None)
            if one is None or one.cause == "cancelled":
                continue
            failed = bool(cause)
            if not cause and not one.cause:
                try:
                    self.likeness.compare(decode_output(one.output), decode_output(output))
                except (CodecError, ValueError):
                    failed = True
            was_late = one.ended_s > one.call.due_s
            self.old.count(bool(one.cause), not one.cause and was_late, one.run_ms)
            self.new.count(failed, not failed and now_s > copy.due_s, done.inference_ms)

    def __str__(self) -> str:
        told = f"new: {self.new}; old: {self.old}; {self.likeness}"
        return f"{told}; {self.dropped} copies dropped" if self.dropped else told
