"""The calls between being accepted and being answered: where each waits, which worker runs it, how it ends.

Who may call, and which host a call belongs to, is decided elsewhere (`core.py`) and asked for here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rosa_contract import messages as m
from rosa_server.serving.core.actions import Action, Answer, Dispatch
from rosa_server.serving.core.batcher import BatchProfile
from rosa_server.serving.core.ledger import Call, Ledger
from rosa_server.serving.core.placement import Host
from rosa_server.serving.core.pool import Worker, WorkerPool
from rosa_server.serving.core.station import Station

MAX_ATTEMPTS = 2  # a call that two workers died with is answered `failed`


class Dispatcher:
    """Every accepted call gets exactly one final answer."""

    def __init__(
        self,
        hosts: Iterable[Host],
        queue_limit: int,
        host_of: Callable[[Call], str | None],
        callers: Callable[[str], int],
    ) -> None:
        """`host_of`: the host that a call belongs to now, None when its robot has left. `callers`: how many
        (robot, component) pairs may call a host."""
        self.pool = WorkerPool()
        self.ledger = Ledger()
        self.draining = False
        self._host_of, self._callers = host_of, callers
        profiles: dict[str, BatchProfile] = {}
        self.stations = {
            host.id: Station(host, queue_limit, profiles.setdefault(host.model, BatchProfile()))
            for host in hosts
        }
        self.out: list[Action] = []

    # -- waiting ---------------------------------------------------------------------------------------------------

    def accept(self, now_s: float, call: Call) -> None:
        """Put an open call where it belongs, or end it and say why."""
        station = self._station_of(call)
        if call.deadline_s <= now_s:
            self.end(now_s, call, m.EXPIRED, "its budget was spent on arrival")
        elif station is None:
            self.end(now_s, call, m.UNAVAILABLE, "the robot has left")
        elif station.queue.full_for(call.key):
            waiting = f"{len(station.queue)} requests wait for {station.host.id}"
            self.end(now_s, call, m.OVERLOADED, f"{waiting}, the limit of queue_per_model")
        else:
            replaced = station.queue.put(call)
            if replaced is not None:
                self.end(now_s, replaced, m.REPLACED, f"request {call.request_id} is fresher")
            station.due_s = now_s

    def drop(self, now_s: float, host: str, key: tuple[str, str], why: str) -> None:
        """End what waits at a host under this key."""
        call = self.stations[host].queue.remove(key)
        if call is not None:
            self.end(now_s, call, m.UNAVAILABLE, why)

    def resort(self, now_s: float) -> None:
        """Routes have changed: bring every waiting call to the host that it belongs to now."""
        for station in self.stations.values():
            for call in list(station.queue):
                target = self._station_of(call)
                if target is not None and target is not station:
                    station.queue.remove(call.key)
                    self.accept(now_s, call)

    # -- running ---------------------------------------------------------------------------------------------------

    def feed(self, now_s: float) -> float:
        """Give waiting calls to free workers. Returns when to do it again, in seconds, if nothing happens before."""
        for station in self.stations.values():
            if station.due_s <= now_s:
                self._expire(now_s, station)
                for worker, batch in station.feed(now_s, self.pool, self._callers(station.host.id)):
                    self.out.append(Dispatch(worker.worker_id, batch.batch_id, batch.slot, batch.calls))
        return min(station.due_s for station in self.stations.values())

    def executed(self, now_s: float, worker_id: str, done: m.Executed) -> bool:
        """A batch came back: answer each of its calls that is still open. False when nobody was given this batch."""
        worker = self.pool.get(worker_id)
        batch = worker.batches.get(done.batch_id) if worker is not None else None
        if worker is None or batch is None or [call.ticket for call in batch.calls] != list(done.tickets):
            return False
        self.pool.finish(worker, done.batch_id, now_s)
        size = len(batch.calls)
        station = self.stations[worker.host]
        station.batcher.profile.learn(size, done.inference_ms)
        station.due_s = now_s
        for call, (status, reason), output in zip(batch.calls, done.errors, done.outputs, strict=True):
            if status:
                self.end(now_s, call, status, reason, done.inference_ms, size)
            else:
                self.end(now_s, call, m.OK, "", done.inference_ms, size, output)
        return True

    def recover(self, now_s: float, worker: Worker, why: str) -> None:
        """What a lost worker held goes back to a queue once, if budget remains and nothing fresher waits."""
        for batch in worker.batches.values():
            for call in batch.calls:
                if self.ledger.is_open(call.ticket):
                    self._again(now_s, call, why)
        self.stations[worker.host].due_s = now_s

    def hung(self, now_s: float) -> list[Worker]:
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
        """Answer a call, unless it has been answered."""
        if self.ledger.close(call):
            self.out.append(Answer(call, status, reason, now_s, inference_ms, batch_size, output))

    def give_up(self, now_s: float, why: str) -> None:
        """Answer everything that is still open: the end of draining."""
        for station in self.stations.values():
            station.queue.take(station.queue.in_order())
        for call in self.ledger:
            self.end(now_s, call, m.UNAVAILABLE, why)

    def _again(self, now_s: float, call: Call, why: str) -> None:
        station = self._station_of(call)
        if call.attempts >= MAX_ATTEMPTS:
            self.end(now_s, call, m.FAILED, f"{call.attempts} workers were lost with it; the last: {why}")
        elif station is not None and station.queue.newer_waits(call.key):
            self.end(now_s, call, m.REPLACED, f"its worker was lost ({why}) and a fresher request waits")
        elif self.draining:
            self.end(
                now_s, call, m.UNAVAILABLE, f"its worker was lost ({why}) and the server is shutting down"
            )
        else:
            self.accept(now_s, call)

    def _expire(self, now_s: float, station: Station) -> None:
        live = bool(self.pool.of(station.host.id))
        for late in station.queue.expire(now_s):
            if live:
                self.end(now_s, late, m.EXPIRED, "its budget was spent in the queue")
            else:
                self.end(now_s, late, m.UNAVAILABLE, f"no worker of {station.host.id} came within its budget")

    def _station_of(self, call: Call) -> Station | None:
        host = self._host_of(call)
        return None if host is None else self.stations[host]
