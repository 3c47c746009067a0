"""What robots do when a schedule is carried out: their closed loop, played through in a few seconds of simulated time.

The schedule's rates hold for any arrivals. Robots that may act faster than that are held back only by the rounds that
they wait for, and these depend on each other: equation (4) with the latencies that arise. They are found by letting the
robots run, with idle servers at first, a local network, and phases as the server gives them. Service times vary a
little, or robots would march in step as they never do. The same random numbers every time make it a pure function.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from random import Random

from rosa_contract.config import SYSTEM1, SYSTEM2
from rosa_server.scheduler.problem import Problem, TaskClass
from rosa_server.scheduler.schedule import Schedule, task_of
from rosa_server.serving.core.batch_profile import BatchProfile
from rosa_server.serving.core.continuous import Shared
from rosa_server.serving.core.placement import Placement, Replica
from rosa_server.serving.core.pool import PREFETCH_S

SETTLE_S, MEASURED_S = 8.0, 20.0
VARIATION = 0.03  # of one run: standard deviation, as a share
NETWORK_S = 0.001  # there and back
MOST_LATE = 0.01  # share of System 1's calls: with more, nothing beyond the schedule is promised
MOST_ROBOTS = 512  # of more, the schedule's own rates are all that is promised


@dataclass
class _Robot:
    cls: TaskClass
    routes: Mapping[str, str]  # goal-coupled component -> queue
    rounds: int = 0  # since the last plan
    sent_s: float = 0.0

    @property
    def slo_s(self) -> float:
        """Of System 1."""
        return min(need.slo_ms for need in self.cls.goals if need.component == SYSTEM1) / 1000


Asked = tuple[_Robot, str]  # who, and which component


@dataclass(eq=False)
class _Queue:
    """One queue with its servers: batches, or calls that run at a time on each."""

    batch: int
    at_once: int | None
    profile: BatchProfile
    servers: int = 0
    waiting: deque[Asked] = field(default_factory=deque)
    free_s: list[float] = field(default_factory=list)  # when each server has run what it was given
    takes_s: list[float] = field(default_factory=list)  # when each may be given more
    shared: list[Shared[Asked]] = field(default_factory=list)

    def add_server(self) -> None:
        self.servers += 1
        self.free_s.append(0.0)
        self.takes_s.append(0.0)
        self.shared.append(Shared(self.profile.service_s))


def predicted_hz(placement: Placement, schedule: Schedule, problem: Problem) -> float:
    """Actions per second of the whole fleet, as `placement` carries the schedule out."""
    planned_hz = schedule.action_throughput_hz
    if not placement.adaptive or problem.robots > MOST_ROBOTS or not placement.routes:
        return planned_hz
    found_hz, late = _Loop(placement, problem).run()
    return max(planned_hz, found_hz) if late <= MOST_LATE else planned_hz


class _Loop:
    def __init__(self, placement: Placement, problem: Problem) -> None:
        self._heap: list[tuple[float, int, str, object]] = []
        self._count = self._actions = self._late = 0
        self._random = Random(0)
        self._changed: dict[_Queue, None] = {}
        self._queues: dict[str, _Queue] = {}
        for replica in placement.replicas.values():
            if not replica.standby:
                self._queue_of(replica).add_server()
        for slot, routes in (placement.routes or {}).items():
            cls = problem.by_name[task_of(slot)]
            goals = {need.component: placement.replicas[routes[need.component]].queue for need in cls.goals}
            phase = placement.phases.get(slot, {}).get(SYSTEM2 if SYSTEM2 in goals else SYSTEM1)
            self._at(phase.offset_s if phase is not None else 0.0, "ready", _Robot(cls, goals))

    def run(self) -> tuple[float, float]:
        """Actions per second after the robots have settled, and the share of System 1's calls that were late."""
        end_s = SETTLE_S + MEASURED_S
        while self._heap and self._heap[0][0] < end_s:
            now_s, _, what, subject = heapq.heappop(self._heap)
            if what == "ready":
                assert isinstance(subject, _Robot)
                self._ask(now_s, subject)
            elif what == "arrives":
                self._arrives(*subject)  # type: ignore[misc]
            elif what == "free":
                assert isinstance(subject, _Queue)
                self._changed[subject] = None
            elif what == "batch":
                self._batch_ends(now_s, *subject)  # type: ignore[misc]
            else:
                self._one_ends(now_s, *subject)  # type: ignore[misc]
            if (
                not self._heap or self._heap[0][0] > now_s
            ):  # what comes at the same instant is batched together
                for queue in self._changed:
                    self._feed(now_s, queue)
                self._changed.clear()
        return self._actions / MEASURED_S, self._late / max(1, self._actions)

    def _batch_ends(self, now_s: float, queue: _Queue, calls: list[Asked]) -> None:
        for call in calls:
            self._answered(now_s, *call)
        self._changed[queue] = None

    def _one_ends(self, now_s: float, queue: _Queue, shared: Shared[Asked], due_s: float) -> None:
        if shared.next_s == due_s:  # else another one has come or gone meanwhile
            self._answered(now_s, *shared.end(now_s)[0])
            self._watch(queue, shared)
            self._changed[queue] = None

    def _varied(self) -> float:
        return 1 + VARIATION * max(-3.0, min(3.0, self._random.gauss(0.0, 1.0)))

    def _queue_of(self, replica: Replica) -> _Queue:
        if replica.queue not in self._queues:
            profile = BatchProfile(replica.service_ms)
            self._queues[replica.queue] = _Queue(replica.batch or 1, replica.at_once, profile)
        return self._queues[replica.queue]

    def _at(self, time_s: float, what: str, subject: object) -> None:
        self._count += 1
        heapq.heappush(self._heap, (time_s, self._count, what, subject))

    def _ask(self, now_s: float, robot: _Robot) -> None:
        """A robot that has carried out a chunk plans when that is due, and acts."""
        plans = next((need for need in robot.cls.goals if need.component == SYSTEM2), None)
        due = plans is not None and robot.rounds * plans.calls_per_action >= 1 - 1e-9
        self._send(now_s, robot, SYSTEM2 if due else SYSTEM1)

    def _send(self, now_s: float, robot: _Robot, component: str) -> None:
        queue = self._queues[robot.routes[component]]
        robot.sent_s = now_s
        self._at(now_s + NETWORK_S, "arrives", (queue, (robot, component)))

    def _arrives(self, queue: _Queue, asked: Asked) -> None:
        queue.waiting.append(asked)
        self._changed[queue] = None

    def _answered(self, now_s: float, robot: _Robot, component: str) -> None:
        if component == SYSTEM1:
            robot.rounds += 1
            if now_s >= SETTLE_S:
                self._actions += 1
                self._late += now_s - robot.sent_s > robot.slo_s
            self._at(now_s + robot.cls.action_s, "ready", robot)
        else:
            robot.rounds = 0
            self._send(now_s, robot, SYSTEM1)

    def _feed(self, now_s: float, queue: _Queue) -> None:
        if queue.at_once is not None:
            while (
                queue.waiting
                and (free := min(queue.shared, key=len)) is not None
                and len(free) < queue.at_once
            ):
                free.begin(now_s, queue.waiting.popleft(), self._varied())
                self._watch(queue, free)
            return
        while queue.waiting:
            first = min(range(queue.servers), key=queue.takes_s.__getitem__)
            if queue.takes_s[first] > now_s:
                return
            starts_s = max(now_s, queue.free_s[first])
            idle = sum(free_s <= now_s for free_s in queue.free_s)
            size = min(queue.batch, -(-len(queue.waiting) // max(1, idle)))
            calls = [queue.waiting.popleft() for _ in range(size)]
            runs_s = queue.profile.service_s(size)
            ends_s = queue.free_s[first] = starts_s + runs_s * self._varied()
            takes_s = queue.takes_s[first] = max(starts_s, min(ends_s, starts_s + runs_s - PREFETCH_S))
            self._at(takes_s, "free", queue)
            self._at(ends_s, "batch", (queue, calls))

    def _watch(self, queue: _Queue, shared: Shared[Asked]) -> None:
        if shared.next_s < inf:
            self._at(shared.next_s, "one", (queue, shared, shared.next_s))
