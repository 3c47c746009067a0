"""The calls between being accepted and being answered: where each waits, which worker runs it, how it ends.

Which robots may call, and which queue a call belongs to, is decided elsewhere (`core.py`) and stands on the call.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from rosa_contract.wire import messages as m
from rosa_contract.wire.progress import Progress
from rosa_server.plan.placement import Replica
from rosa_server.serving.core.dispatch.cloud import CloudLane
from rosa_server.serving.core.dispatch.lane import Agenda, Lane
from rosa_server.serving.core.dispatch.shared_gpu import Turns
from rosa_server.serving.core.queueing.actions import Action, Cancel, Dispatch, Reply, Say
from rosa_server.serving.core.queueing.ledger import Call, Ledger
from rosa_server.serving.core.queueing.order import EarliestDeadline, Ranking
from rosa_server.serving.core.rates.permits import Key, Permit
from rosa_server.serving.core.workers.pool import WorkerPool
from rosa_server.serving.core.workers.shadowing import Shadow
from rosa_server.serving.core.workers.worker_state import Batch, SharedGpu, WorkerState

# Causes that tell how full the servers are; the others are about the request. The empty one: it went well.
LOAD_CAUSES = ("", "budget_spent", "queue_full", "no_worker")
NEVER_RAN = ("cancelled", "budget_spent")
MAX_ATTEMPTS = 2  # a call that two workers died with is answered `failed`


class Dispatcher:
    """Every accepted call gets exactly one final answer."""

    def __init__(self, replicas: Iterable[Replica], queue_limit: int, ranking: Ranking | None = None) -> None:
        """One queue for each pool, and for each replica without one. `ranking`: of every queue; none: by deadline."""
        self.pool = WorkerPool()
        self.ledger = Ledger()
        self.draining = False
        self._agenda = Agenda()
        self.ranking = ranking if ranking is not None else Ranking(EarliestDeadline())
        # Each learns its own times: of one model, a queue of plans is slower than one of verdicts.
        self.lanes: dict[str, Lane] = {}
        self._planned: dict[str, tuple[Any, ...]] = {}  # by queue: whose times its lane began with
        self._gpus: dict[str, Turns] = {}  # server -> whose models take turns
        self._turns: dict[str, Turns] = {}  # by queue
        self._queue_limit = queue_limit
        self.shadows: dict[str, Shadow] = {}  # by worker id
        replicas = list(replicas)
        # Any lane may get workers of the cloud, as streams move between replicas.
        self._kind = CloudLane if any(replica.link_ms for replica in replicas) else Lane
        self.make_lanes(replicas)
        for replica in replicas:
            lane = self.lanes[replica.queue]
            if replica.takes_turns:
                turns = self._turns[replica.queue] = self._gpus.setdefault(replica.server, Turns())
                turns.lanes.append(lane)
            if replica.link_ms and isinstance(lane, CloudLane):
                lane.cloud_profile = replica.times
        # What came back and is not learned yet: now, worker, batch, and which of its calls were open and went well.
        self._came_back: list[tuple[float, WorkerState, Batch, m.Executed, list[bool]]] = []
        self._out: list[Action] = []

    def make_lanes(self, replicas: Iterable[Replica]) -> None:
        """A lane for each queue that has none. One that no replica uses any more stays, as batches may be out."""
        for replica in replicas:
            if replica.queue not in self.lanes:
                self.lanes[replica.queue] = self._kind(
                    replica, self._queue_limit, replica.times, self._agenda, self.pool, self.ranking
                )
                self._planned[replica.queue] = _times_of(replica)

    def adopt(self, replicas: Collection[Replica]) -> None:
        """Those of another placement: a queue may be that of another model now."""
        self._learn()
        self.make_lanes(replicas)
        first = {replica.queue: replica for replica in reversed(list(replicas))}
        for queue, replica in first.items():
            if self._planned[queue] != (times := _times_of(replica)):
                self._planned[queue] = times
                self.lanes[queue].begin_anew(replica)

    def actions(self) -> list[Action]:
        """What has to be sent since the last call, in order."""
        out, self._out = self._out, []
        return out

    # -- waiting ---------------------------------------------------------------------------------------------------

    def arrive(self, now_s: float, call: Call, task: str = "", progress: Progress | None = None) -> None:
        """A robot has sent this call, which is open and belongs to a queue. `task`: the robot's, by name."""
        self._learn()
        lane = self._lane_of(call)
        self.ranking.arrived(now_s, call, task, progress)
        self.accept(now_s, call)
        if lane is not None:
            lane.arrived(now_s)

    def ask(self, now_s: float, queue: str, key: Key, rate_hz: float, slo_s: float) -> None:
        """A robot waits for a permit of this queue."""
        self.lanes[queue].ask(now_s, key, rate_hz, slo_s)

    def permit_of(self, now_s: float, call: Call, paced: bool = True) -> Permit | None:
        """The permit that a call has come with, which is used up. `paced`: see `Lane.called`."""
        return None if call.queue is None else self.lanes[call.queue].called(now_s, call, paced)

    def accept(self, now_s: float, call: Call) -> None:
        """Queue an open call where it belongs, or end it and say why."""
        lane = self._lane_of(call)
        if call.deadline_s <= now_s:
            self.end(now_s, call, "budget_spent", "its budget was spent on arrival")
        elif lane is None:
            self.end(now_s, call, "robot_left", "the robot has left")
        elif lane.queue.full_for(call.key):
            waiting = f"{len(lane.queue)} requests wait for {lane.name}"
            self.end(now_s, call, "queue_full", f"{waiting}, the limit of queue_per_model")
        else:
            replaced = lane.put(now_s, call)
            if replaced is not None:
                self.end(now_s, replaced, "fresher_request", f"request {call.request_id} is fresher")

    def leave(self, now_s: float, connection: bytes, why: str) -> None:
        """A robot has left: all its calls end."""
        self._learn()
        self.ranking.forget(connection)
        for each in self.lanes.values():
            each.rates.line.forget(connection)
        for call in self.ledger.of(connection):
            self._withdraw(now_s, call, "robot_left", why)

    def cancel(self, now_s: float, connection: bytes, request_id: int) -> None:
        """A robot waits for this call no more: it ends now, wherever it is.

        Nothing happens where none is open: its answer may cross the robot's message. A call is looked for among those
        of this connection only, so nobody cancels another robot's.
        """
        for call in self.ledger.of(connection):
            if call.request_id == request_id:
                self._withdraw(now_s, call, "cancelled", "its robot cancelled it")

    def task_ends(self, now_s: float, connection: bytes, ends: m.TaskEnds) -> None:
        """A robot's task is over."""
        self._learn()
        self.ranking.task_ends(now_s, connection, ends)

    def requeue(self, now_s: float) -> None:
        """Calls belong to other queues now: move those that wait."""
        for lane in self.lanes.values():
            for call in list(lane.queue):
                if call.queue != lane.name:
                    lane.queue.remove(call.key)
                    self.accept(now_s, call)

    def window(self, now_s: float, planned_hz: Mapping[str, float]) -> None:
        """Once a second. `planned_hz`: queue -> calls per second of the robots that are here, as planned."""
        self._learn()
        for queue, lane in self.lanes.items():
            lane.window(now_s, planned_hz.get(queue, 0.0))

    # -- running ---------------------------------------------------------------------------------------------------

    def feed(self, now_s: float) -> float:
        """Give waiting calls to free workers. Returns when to do it again, in seconds, if nothing happens before."""
        self._learn()
        for lane in self._agenda.due(now_s):
            turns = self._turns.get(lane.name)
            for each in turns.lanes if turns is not None else (lane,):
                self._expire(now_s, each)
            given, permits = lane.step(now_s, turns)
            for worker, batch in given:
                where = (batch.buffer, worker.credits)
                self._out.append(Dispatch(worker.worker_id, batch.batch_id, *where, batch.calls, batch.size))
                self._copied(worker, batch)
            for connection, component in permits:
                self._out.append(Say(connection, m.Permit(component)))
        due_s = math.inf
        for shadow in self.shadows.values():
            due_s = min(due_s, self._feed_shadow(now_s, shadow))
        return min(due_s, self._agenda.next_s())

    def _copied(self, worker: WorkerState, batch: Batch) -> None:
        for shadow in self.shadows.values():
            heir = self.pool.get(shadow.worker_id)
            if heir is not None and not heir.retired and worker.model == shadow.model:
                shadow.given(batch.calls, heir.largest)

    def _feed_shadow(self, now_s: float, shadow: Shadow) -> float:
        """Give it copies where nobody else has anything to do there. Returns when to look again, in seconds."""
        worker = self.pool.get(shadow.worker_id)
        if worker is None or worker.retired or shadow.closed:
            return math.inf
        beside = self.pool.beside(worker)
        busy = any(one.batches or (one.gpu is not None and one.gpu.busy) for one in beside)
        free = not worker.batches and not busy and not len(self.lanes[worker.queue].queue)
        calls = shadow.next(now_s, free, self.ledger.new_ticket)
        if calls:
            profile = self.lanes[worker.queue].batcher.profile
            service_s = profile.service_s(len(calls)) if profile.known else None
            batch = self.pool.give(worker, calls, now_s, service_s, copies=True)
            where = (batch.buffer, worker.credits)
            self._out.append(Dispatch(worker.worker_id, batch.batch_id, *where, batch.calls, batch.size))
        return shadow.due_s

    def gpu_of(self, replica: Replica) -> SharedGpu | None:
        """Of a replica that shares its GPU with other models."""
        return self._gpus[replica.server].gpu if replica.takes_turns else None

    def _freed(self, now_s: float, queue: str) -> None:
        """A worker of a queue may have room now; on a GPU of several models it may be another one's turn."""
        turns = self._turns.get(queue)
        for lane in turns.lanes if turns is not None else (self.lanes[queue],):
            lane.freed(now_s)

    def executed(self, now_s: float, worker_id: str, done: m.Executed) -> bool:
        """A batch came back: answer each of its calls that is still open. False when this worker was not given it."""
        worker = self.pool.get(worker_id)
        batch = worker.batches.get(done.batch_id) if worker is not None else None
        if worker is None or batch is None or [call.ticket for call in batch.calls] != list(done.tickets):
            return False
        self.pool.finish(worker, done.batch_id, now_s, sum(done.decode_ms) / 1000)
        worker.counts = done.counts or worker.counts
        if batch.copies:
            if worker_id in self.shadows:
                self.shadows[worker_id].ran(now_s, batch, done)
            return True
        self._freed(now_s, worker.queue)
        good = []
        for call, (cause, reason), output in zip(batch.calls, done.errors, done.outputs, strict=True):
            good.append(not cause and self.ledger.is_open(call.ticket))
            self.end(now_s, call, cause, reason, done.inference_ms, batch.size, None if cause else output)
        self._came_back.append((now_s, worker, batch, done, good))
        return True

    def _learn(self) -> None:
        """Learn from the batches that came back: before anything else is decided, but after their answers have left."""
        for now_s, worker, batch, done, good in self._came_back:
            size, took_ms = batch.size, done.inference_ms
            # Where none of its calls ran it ended early, and its time says nothing.
            if any(cause not in NEVER_RAN for cause, _ in done.errors):
                self.lanes[batch.queue].ran(now_s, worker, size, took_ms)
            for call, well in zip(batch.calls, good, strict=True):
                self.ranking.executed(now_s, call, took_ms / 1000, well, size)
            for shadow in self.shadows.values():
                for call, (cause, _), output in zip(batch.calls, done.errors, done.outputs, strict=True):
                    shadow.answered(now_s, call, cause, output, took_ms)
        self._came_back.clear()

    def recover(self, now_s: float, worker: WorkerState, why: str) -> None:
        """Queue the calls of a lost worker again, where budget remains and nothing fresher waits."""
        for batch in worker.batches.values():
            for call in batch.calls:
                if self.ledger.is_open(call.ticket):
                    self._again(now_s, call, why)
        self._freed(now_s, worker.queue)

    def hung(self, now_s: float) -> list[WorkerState]:
        """The workers with a batch that has run far too long."""
        return [w for w in self.pool if any(now_s > batch.hang_s for batch in w.batches.values())]

    # -- ending ----------------------------------------------------------------------------------------------------

    def end(
        self,
        now_s: float,
        call: Call,
        cause: str,
        reason: str,
        inference_ms: float = 0.0,
        batch_size: int = 0,
        output: Any = None,
    ) -> None:
        """Answer a call, unless it has been answered. `cause`: one of `messages.CAUSES`, or empty for status ok."""
        if self.ledger.close(call):
            if call.queue is not None and cause in LOAD_CAUSES:
                late = bool(cause) or now_s + call.network_s > call.deadline_s
                self.lanes[call.queue].rates.ended(late)
            status = m.CAUSES[cause] if cause else m.OK
            self._out.append(Reply(call, status, cause, reason, now_s, inference_ms, batch_size, output))

    def give_up(self, now_s: float, why: str) -> None:
        """Answer everything that is still open: the end of draining."""
        for lane in self.lanes.values():
            lane.queue.take(list(lane.queue.in_order()))  # the queue's own list shrinks meanwhile
        for call in self.ledger:
            self.end(now_s, call, "shutting_down", why)

    def _withdraw(self, now_s: float, call: Call, cause: str, reason: str) -> None:
        """End a call that nobody waits for. The answer of its worker is dropped when it comes.

        A worker that runs several calls at a time is told, and runs another one instead. Any other reads nothing while
        it runs a batch.
        """
        lane = self._lane_of(call)
        if lane is not None and call in lane.queue:
            lane.queue.remove(call.key)
        elif (worker := self.pool.get(call.worker_id)) is not None and worker.one_by_one:
            self._out.append(Cancel(worker.worker_id, [call.ticket]))
        self.end(now_s, call, cause, reason)

    def _again(self, now_s: float, call: Call, why: str) -> None:
        lane = self._lane_of(call)
        if call.attempts >= MAX_ATTEMPTS:
            self.end(
                now_s, call, "workers_lost", f"{call.attempts} workers were lost with it; the last: {why}"
            )
        elif lane is not None and lane.queue.newer_waits(call.key):
            self.end(
                now_s, call, "fresher_request", f"its worker was lost ({why}) and a fresher request waits"
            )
        elif self.draining:
            self.end(
                now_s, call, "shutting_down", f"its worker was lost ({why}) and the server is shutting down"
            )
        else:
            self.accept(now_s, call)

    def _expire(self, now_s: float, lane: Lane) -> None:
        for late in lane.queue.expire(now_s):
            if self.pool.of(lane.name):
                self.end(now_s, late, "budget_spent", "its budget was spent in the queue")
            else:
                self.end(now_s, late, "no_worker", f"no worker of {lane.name} came within its budget")

    def _lane_of(self, call: Call) -> Lane | None:
        return None if call.queue is None else self.lanes[call.queue]


def _times_of(replica: Replica) -> tuple[Any, ...]:
    """Whose times they are, and what is planned of them."""
    return replica.model, replica.service_ms, replica.padded
