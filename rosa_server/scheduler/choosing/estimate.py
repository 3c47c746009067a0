"""What robots roughly do when a schedule is carried out, fast enough to compare dozens of schedules of one plan.

Batches, permits and shared servers are written down here as rules of thumb, with idle servers at first, a local network
and phases as the server gives them. What a plan promises of the schedule that it has chosen is predicted with the real
serving core (`prediction.py`), which takes ten times as long. Service times vary a little, or robots would march in
step as they never do. The same random numbers every time make it a pure function.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from random import Random

from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1, SYSTEM2
from rosa_server.plan.placement import Placement, Replica
from rosa_server.scheduler.placement.schedule import task_of
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.timing.batches import (
    MIN_WAIT_S,
    PREFETCH_S,
    RETURN_MARGIN_S,
    BatchProfile,
    largest,
    together,
)
from rosa_server.timing.continuous import Shared
from rosa_server.timing.turns import Turn, leaves_in_time, whose_turn

SETTLE_S, MEASURED_S = 8.0, 20.0
QUICK_S = 6.0  # measured of a fleet that is large enough for so short a time to tell two schedules apart
VARIATION = 0.03  # of one run: standard deviation, as a share
NETWORK_S = 0.001  # there and back


@dataclass(eq=False, slots=True)
class _Robot:
    cls: TaskClass
    acts: Need
    plans: Need | None
    queues: Mapping[str, _Queue]  # by component
    rounds: int = 0  # since the last plan
    sent_s: dict[str, float] = field(default_factory=dict)


Asked = tuple[_Robot, Need]  # which robot, and what


@dataclass(eq=False, slots=True)
class _Queue:
    """One queue with its servers: batches, or calls that run at a time on each."""

    batch: int
    at_once: int | None
    reserved: int  # of these places
    profile: BatchProfile
    mixed: Mapping[str, BatchProfile]  # component -> its own times, where several run beside each other
    prefill_s: Mapping[str, float]  # of one prompt, by component
    permits: bool  # a call counts from when it may be sent
    servers: int = 0
    slos_s: set[float] = field(default_factory=set)  # of those that may call
    waiting: deque[Asked] = field(default_factory=deque)
    free_s: list[float] = field(default_factory=list)  # when each server has run what it was given
    takes_s: list[float] = field(default_factory=list)  # when each may be given more
    soonest_s: float = 0.0  # before this no server may be given more
    shared: list[Shared[Asked]] = field(default_factory=list)
    sizes: dict[float, int] = field(default_factory=dict)  # by SLO, as found before
    lane: _Lane | None = None  # of a GPU whose models take turns
    blocked_s: float = 0.0  # what a call may wait for another model's batch there

    def size(self, slo_s: float) -> int:
        """The largest batch that a call with this SLO may be in."""
        if not self.permits:
            return self.batch
        known = self.sizes.get(slo_s)
        if known is None:
            wait_s = MIN_WAIT_S + self.blocked_s
            known = self.sizes[slo_s] = largest(self.batch, self.profile.service_s, wait_s, slo_s)
        return known

    def take(self, idle: int) -> list[Asked]:
        """The waiting calls that run next, while `idle` servers are idle."""
        count = len(self.waiting)
        each = -(-count // max(1, idle))
        if len(self.slos_s) == 1:  # as below, in the order in which they wait
            size = self.size(next(iter(self.slos_s)))
            fits = min(self.profile.best_count(min(size, count)), each)
            return [self.waiting.popleft() for _ in range(self.profile.best_count(fits))]
        sizes = [self.size(need.slo_ms / 1000) for _, need in self.waiting]
        chosen = together(sizes, self.profile)[:each]
        calls = [self.waiting[index] for index in chosen[: self.profile.best_count(len(chosen))]]
        for asked in calls:
            self.waiting.remove(asked)
        return calls

    def add_server(self) -> None:
        self.servers += 1
        self.free_s.append(0.0)
        self.takes_s.append(0.0)
        self.shared.append(Shared(self.profile.service_s))


@dataclass(eq=False)
class _Lane:
    """One GPU whose models take turns."""

    queues: list[_Queue] = field(default_factory=list)
    free_s: float = 0.0


class Estimate:
    """Plays a placement through."""

    def __init__(self, placement: Placement, problem: Problem, quick: bool = False) -> None:
        """`quick`: for less time, and without periodic calls that share no server with those of a round: they make no
        difference between two ways to serve it. A slot need not have a route for each of its periodic calls."""
        self.measured_s = QUICK_S if quick else MEASURED_S
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0
        self._problem = problem
        self.actions: Counter[str] = Counter()  # by task
        self.calls: Counter[str] = Counter()  # by component
        self.late: Counter[str] = Counter()
        self._random = Random(0)
        self._changed: dict[_Queue, None] = {}
        self._queues: dict[str, _Queue] = {}
        self._lanes: dict[str, _Lane] = {}  # by GPU
        for replica in placement.replicas.values():
            if not replica.standby:
                self._queue_of(replica).add_server()
        goals = {cls.name: {need.component: need for need in cls.goals} for cls in problem.classes}
        left_out = periodic_queues(placement) if quick else set()
        for slot, routes in (placement.routes or {}).items():
            cls = problem.by_name[task_of(slot)]
            queues = {name: self._queue_of(placement.replicas[replica]) for name, replica in routes.items()}
            robot = _Robot(cls, goals[cls.name][SYSTEM1], goals[cls.name].get(SYSTEM2), queues)
            for need in cls.needs:
                if need.component in queues:
                    queues[need.component].slos_s.add(need.slo_ms / 1000)
            phases = placement.phases.get(slot, {})
            first = phases.get(SYSTEM2 if SYSTEM2 in queues else SYSTEM1)
            self._at(first.offset_s if first is not None else 0.0, partial(self._ask, robot))
            for need in cls.obligations:
                name = routes.get(need.component)
                if name is None or placement.replicas[name].queue in left_out:
                    continue
                phase = phases.get(need.component)
                self._at(phase.offset_s if phase is not None else 0.0, partial(self._due, robot, need))

    def run(self) -> Estimate:
        """What robots do once they have settled."""
        end_s = SETTLE_S + self.measured_s
        while self._heap and self._heap[0][0] < end_s:
            now_s, _, happens = heapq.heappop(self._heap)
            happens(now_s)
            # What comes at the same instant is batched together.
            if not self._heap or self._heap[0][0] > now_s:
                for queue in self._changed:
                    self._feed(now_s, queue)
                self._changed.clear()
        return self

    def _frees(self, queue: _Queue, now_s: float) -> None:
        """One of its servers may be given more."""
        self._changed[queue] = None

    def _batch_ends(self, queue: _Queue, calls: list[Asked], now_s: float) -> None:
        for call in calls:
            self._answered(now_s, *call)
        self._changed[queue] = None

    def _one_ends(self, queue: _Queue, shared: Shared[Asked], due_s: float, now_s: float) -> None:
        if shared.next_s == due_s:  # else another one has come or gone meanwhile
            self._answered(now_s, *shared.end(now_s)[0])
            self._watch(queue, shared)
            self._changed[queue] = None

    def _varied(self) -> float:
        return 1 + VARIATION * max(-3.0, min(3.0, self._random.gauss(0.0, 1.0)))

    def _queue_of(self, replica: Replica) -> _Queue:
        if replica.queue not in self._queues:
            profile = replica.times
            mixed = {component: BatchProfile(times) for component, times in replica.mixed_ms.items()}
            prefill_s = {component: ms / 1000 for component, ms in replica.prefill_ms.items()}
            self._queues[replica.queue] = _Queue(
                replica.batch or 1,
                replica.at_once,
                replica.reserved,
                profile,
                mixed,
                prefill_s,
                replica.permits,
            )
            if replica.takes_turns:
                queue, lane = self._queues[replica.queue], self._lanes.setdefault(replica.server, _Lane())
                queue.lane, queue.blocked_s = lane, replica.blocked_ms / 1000
                lane.queues.append(queue)
        return self._queues[replica.queue]

    def _at(self, time_s: float, happens: Callable[[float], None]) -> None:
        """`happens` is called with its time; events of one instant in the order in which they were planned."""
        self._count += 1
        heapq.heappush(self._heap, (time_s, self._count, happens))

    def _ask(self, robot: _Robot, now_s: float) -> None:
        """A robot that has carried out a chunk, or will have then, plans when that is due, and acts."""
        plans = robot.plans
        due = plans is not None and robot.rounds * plans.calls_per_action >= 1 - 1e-9
        self._send(now_s, robot, plans if plans is not None and due else robot.acts)

    def _due(self, robot: _Robot, need: Need, now_s: float) -> None:
        """A periodic call, unless the former one is still open."""
        if robot.sent_s.get(need.component, -inf) == -inf:
            self._send(now_s, robot, need)
        self._at(now_s + 1 / need.freq_hz, partial(self._due, robot, need))

    def _send(self, now_s: float, robot: _Robot, need: Need) -> None:
        robot.sent_s[need.component] = now_s
        self._at(now_s + NETWORK_S, partial(self._arrives, robot, need))

    def _arrives(self, robot: _Robot, need: Need, now_s: float) -> None:
        queue = robot.queues[need.component]
        queue.waiting.append((robot, need))
        self._changed[queue] = None

    def _answered(self, now_s: float, robot: _Robot, need: Need) -> None:
        sent_s, robot.sent_s[need.component] = robot.sent_s[need.component], -inf
        if now_s >= SETTLE_S:
            self.calls[need.component] += 1
            self.late[need.component] += now_s - sent_s > need.slo_ms / 1000
        if need.component == SYSTEM1:
            robot.rounds += 1
            if now_s >= SETTLE_S:
                self.actions[robot.cls.name] += 1
            self._ask(robot, now_s + robot.cls.action_s)
        elif need.component == SYSTEM2:
            robot.rounds = 0
            self._ask(robot, now_s)

    def _feed(self, now_s: float, queue: _Queue) -> None:
        if queue.lane is not None:
            self._take_turn(now_s, queue.lane)
            return
        if queue.at_once is not None:
            while queue.waiting:
                free = min(queue.shared, key=len) if len(queue.shared) > 1 else queue.shared[0]
                if len(free) >= queue.at_once:
                    return
                full = queue.permits and queue.reserved and _goals(free) >= queue.at_once - queue.reserved
                asked = next((one for one in queue.waiting if not (full and one[1].is_goal)), None)
                if asked is None:
                    return
                queue.waiting.remove(asked)
                self._permitted(now_s, queue, asked)
                component = asked[1].component
                times, prompt_s = (
                    queue.mixed.get(component, queue.profile),
                    queue.prefill_s.get(component, 0.0),
                )
                free.begin(now_s, asked, self._varied(), times.service_s, prompt_s)
                self._watch(queue, free)
            return
        while queue.waiting and queue.soonest_s <= now_s:
            first = queue.takes_s.index(min(queue.takes_s))
            if queue.takes_s[first] > now_s:
                queue.soonest_s = queue.takes_s[first]
                return
            starts_s = max(now_s, queue.free_s[first])
            idle = sum([free_s <= now_s for free_s in queue.free_s])
            calls = queue.take(idle)
            size = len(calls)
            for asked in calls:
                self._permitted(now_s, queue, asked)
            runs_s = queue.profile.service_s(size)
            ends_s = queue.free_s[first] = starts_s + runs_s * self._varied()
            takes_s = queue.takes_s[first] = max(starts_s, min(ends_s, starts_s + runs_s - PREFETCH_S))
            self._at(takes_s, partial(self._frees, queue))
            self._at(ends_s, partial(self._batch_ends, queue, calls))

    def _take_turn(self, now_s: float, lane: _Lane) -> None:
        """A GPU that is free runs the batch whose turn it is. Robots that wait for a permit have it by then where their
        batch leaves all others in time, and their calls count from there on."""
        if lane.free_s > now_s:
            return
        for queue in lane.queues:
            for robot, need in [
                one for one in queue.waiting if _due_s(*one) <= now_s and not _told(queue, *one)
            ]:
                queue.waiting.remove((robot, need))
                self._given_up(now_s, robot, need)
        if not any(queue.waiting for queue in lane.queues):
            return
        batches: list[tuple[_Queue, list[Asked], Turn]] = []
        told: list[tuple[_Queue, list[Asked], Turn]] = []
        for queue in lane.queues:
            if not queue.waiting:
                continue
            sizes = [queue.size(need.slo_ms / 1000) for _, need in queue.waiting]
            chosen = together(sizes, queue.profile)
            calls = [queue.waiting[index] for index in chosen[: queue.profile.best_count(len(chosen))]]
            since_s = min(robot.sent_s[need.component] for robot, need in calls)
            waits = _told(queue, *calls[0])
            due_s = (
                now_s - MIN_WAIT_S + min(need.slo_ms for _, need in calls) / 1000
                if waits
                else min(_due_s(robot, need) for robot, need in calls)
            )
            turn = Turn(since_s, due_s - RETURN_MARGIN_S, queue.profile.service_s(len(calls)))
            (told if waits else batches).append((queue, calls, turn))
        others = [turn for _, _, turn in batches]
        batches += [each for each in told if leaves_in_time(now_s, each[2].runs_s, others)]
        queue, calls, turn = batches[whose_turn(now_s, [turn for _, _, turn in batches])]
        for asked in calls:
            self._permitted(now_s, queue, asked)
            queue.waiting.remove(asked)
        lane.free_s = now_s + turn.runs_s * self._varied()
        self._at(lane.free_s, partial(self._batch_ends, queue, calls))

    def _given_up(self, now_s: float, robot: _Robot, need: Need) -> None:
        """A call has waited until its deadline: its robot makes it again, or when it is due again."""
        robot.sent_s[need.component] = -inf
        if now_s >= SETTLE_S:
            self.calls[need.component] += 1
            self.late[need.component] += 1
        if need.is_goal:
            self._send(now_s, robot, need)

    def _permitted(self, now_s: float, queue: _Queue, asked: Asked) -> None:
        robot, need = asked
        if queue.permits and need.is_goal:
            robot.sent_s[need.component] = max(robot.sent_s[need.component], now_s - MIN_WAIT_S)

    def _watch(self, queue: _Queue, shared: Shared[Asked]) -> None:
        if shared.next_s < inf:
            self._at(shared.next_s, partial(self._one_ends, queue, shared, shared.next_s))


def periodic_queues(placement: Placement) -> set[str]:
    """Queues that answer periodic calls only, on servers and GPUs where no calls of a round run."""
    found, others, gpus = set[str](), set[str](), set[str]()
    for routes in (placement.routes or {}).values():
        for component, name in routes.items():
            replica = placement.replicas[name]
            (others if component in GOAL_COUPLED else found).add(replica.queue)
            if component in GOAL_COUPLED and replica.takes_turns:
                gpus.add(replica.server)
    on_gpus = {one.queue for one in placement.replicas.values() if one.takes_turns and one.server in gpus}
    return found - others - on_gpus


def _goals(shared: Shared[Asked]) -> int:
    """How many goal-coupled calls run there."""
    return sum(need.is_goal for _, need in shared)


def _due_s(robot: _Robot, need: Need) -> float:
    return robot.sent_s[need.component] + need.slo_ms / 1000


def _told(queue: _Queue, robot: _Robot, need: Need) -> bool:
    """Whether it is sent only when its turn has come: its robot waits for a permit."""
    return queue.permits and need.is_goal
