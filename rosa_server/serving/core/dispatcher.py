"""The calls between being accepted and being answered: where each waits, which worker runs it, how it ends.

Who may call, and which replica a call belongs to, is decided elsewhere (`core.py`) and asked for here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rosa_contract import messages as m
from rosa_server.serving.core.actions import Action, Dispatch, Reply
from rosa_server.serving.core.batcher import BatchProfile
from rosa_server.serving.core.ledger import Call, Ledger
from rosa_server.serving.core.placement import Replica
from rosa_server.serving.core.pool import WorkerPool, WorkerState
from rosa_server.serving.core.replica import ReplicaState

MAX_ATTEMPTS = 2  # a call that two workers died with is answered `failed`


class Dispatcher:
    """Every accepted call gets exactly one final answer."""

    def __init__(
        self,
        replicas: Iterable[Replica],
        queue_limit: int,
        replica_of: Callable[[Call], str | None],
        callers: Callable[[str], int],
    ) -> None:
        """`replica_of`: the replica that a call belongs to now, None when its robot has left. `callers`: how many
        (robot, component) pairs may call a replica."""
        self.pool = WorkerPool()
        self.ledger = Ledger()
        self.draining = False
        self._owner_of, self._callers = replica_of, callers
        profiles: dict[str, BatchProfile] = {}
        self.replicas = {
            replica.id: ReplicaState(replica, queue_limit, profiles.setdefault(replica.model, BatchProfile()))
            for replica in replicas
        }
        self.out: list[Action] = []

    # -- waiting ---------------------------------------------------------------------------------------------------

    def accept(self, now_s: float, call: Call) -> None:
        """Put an open call where it belongs, or end it and say why."""
        replica = self._replica_of(call)
        if call.deadline_s <= now_s:
            self.end(now_s, call, m.EXPIRED, "its budget was spent on arrival")
        elif replica is None:
            self.end(now_s, call, m.UNAVAILABLE, "the robot has left")
        elif replica.queue.full_for(call.key):
            waiting = f"{len(replica.queue)} requests wait for {replica.replica.id}"
            self.end(now_s, call, m.OVERLOADED, f"{waiting}, the limit of queue_per_model")
        else:
            replaced = replica.queue.put(call)
            if replaced is not None:
                self.end(now_s, replaced, m.REPLACED, f"request {call.request_id} is fresher")
            replica.due_s = now_s

    def drop(self, now_s: float, replica: str, key: tuple[str, str], why: str) -> None:
        """End what waits at a replica under this key."""
        call = self.replicas[replica].queue.remove(key)
        if call is not None:
            self.end(now_s, call, m.UNAVAILABLE, why)

    def resort(self, now_s: float) -> None:
        """Routes have changed: bring every waiting call to the replica that it belongs to now."""
        for replica in self.replicas.values():
            for call in list(replica.queue):
                target = self._replica_of(call)
                if target is not None and target is not replica:
                    replica.queue.remove(call.key)
                    self.accept(now_s, call)

    # -- running ---------------------------------------------------------------------------------------------------

    def feed(self, now_s: float) -> float:
        """Give waiting calls to free workers. Returns when to do it again, in seconds, if nothing happens before."""
        for replica in self.replicas.values():
            if replica.due_s <= now_s:
                self._expire(now_s, replica)
                for worker, batch in replica.feed(now_s, self.pool, self._callers(replica.replica.id)):
                    self.out.append(Dispatch(worker.worker_id, batch.batch_id, batch.slot, batch.calls))
        return min(replica.due_s for replica in self.replicas.values())

    def executed(self, now_s: float, worker_id: str, done: m.Executed) -> bool:
        """A batch came back: answer each of its calls that is still open. False when nobody was given this batch."""
        worker = self.pool.get(worker_id)
        batch = worker.batches.get(done.batch_id) if worker is not None else None
        if worker is None or batch is None or [call.ticket for call in batch.calls] != list(done.tickets):
            return False
        self.pool.finish(worker, done.batch_id, now_s)
        size = len(batch.calls)
        replica = self.replicas[worker.replica]
        replica.batcher.profile.learn(size, done.inference_ms)
        replica.due_s = now_s
        for call, (status, reason), output in zip(batch.calls, done.errors, done.outputs, strict=True):
            if status:
                self.end(now_s, call, status, reason, done.inference_ms, size)
            else:
                self.end(now_s, call, m.OK, "", done.inference_ms, size, output)
        return True

    def recover(self, now_s: float, worker: WorkerState, why: str) -> None:
        """What a lost worker held goes back to a queue once, if budget remains and nothing fresher waits."""
        for batch in worker.batches.values():
            for call in batch.calls:
                if self.ledger.is_open(call.ticket):
                    self._again(now_s, call, why)
        self.replicas[worker.replica].due_s = now_s

    def hung(self, now_s: float) -> list[WorkerState]:
        """The workers whose batch never ends."""
        return [w for w in self.pool if any(now_s > batch.hang_s for batch in w.batches.values())]

    # -- ending ----------------------------------------------------------------------------------------------------

    def end(
        self,
        now_s: float,
        call: Call,
        status: str,
        reason: str,
        inference_ms: float = 0.0,
        batch_size: int = 0,
        output: Any = None,
    ) -> None:
        """Reply a call, unless it has been answered."""
        if self.ledger.close(call):
            self.out.append(Reply(call, status, reason, now_s, inference_ms, batch_size, output))

    def give_up(self, now_s: float, why: str) -> None:
        """Reply everything that is still open: the end of draining."""
        for replica in self.replicas.values():
            replica.queue.take(replica.queue.in_order())
        for call in self.ledger:
            self.end(now_s, call, m.UNAVAILABLE, why)

    def _again(self, now_s: float, call: Call, why: str) -> None:
        replica = self._replica_of(call)
        if call.attempts >= MAX_ATTEMPTS:
            self.end(now_s, call, m.FAILED, f"{call.attempts} workers were lost with it; the last: {why}")
        elif replica is not None and replica.queue.newer_waits(call.key):
            self.end(now_s, call, m.REPLACED, f"its worker was lost ({why}) and a fresher request waits")
        elif self.draining:
            self.end(
                now_s, call, m.UNAVAILABLE, f"its worker was lost ({why}) and the server is shutting down"
            )
        else:
            self.accept(now_s, call)

    def _expire(self, now_s: float, replica: ReplicaState) -> None:
        live = bool(self.pool.of(replica.replica.id))
        for late in replica.queue.expire(now_s):
            if live:
                self.end(now_s, late, m.EXPIRED, "its budget was spent in the queue")
            else:
                self.end(
                    now_s, late, m.UNAVAILABLE, f"no worker of {replica.replica.id} came within its budget"
                )

    def _replica_of(self, call: Call) -> ReplicaState | None:
        name = self._owner_of(call)
        return None if name is None else self.replicas[name]
