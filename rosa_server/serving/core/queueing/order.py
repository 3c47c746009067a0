"""In which order waiting calls go to workers: one interface, several policies (`gateway.order`).

A policy is a pure function of the time, a call and what the server has seen of its stream and task; the smallest rank
runs first. No policy can break a deadline's rules: expired calls leave the queue before it is asked, and the batcher
decides how many of the first calls can run together in time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.queueing.lengths import TaskLengths
from rosa_server.serving.core.queueing.rounds import Rounds
from rosa_server.serving.core.queueing.turnover import Turnover
from rosa_server.timing.margins import URGENT_S

SURE_OF = 200  # ended tasks; while fewer are known what is left is a guess, and age counts for more

Rank = tuple[float, ...]


@dataclass(slots=True)
class TaskSeen:
    """One task of a robot, as far as the server has seen it. A robot that says nothing has one task per session."""

    began_s: float
    number: int | None = None  # None: the robot does not say which
    kind: str = ""
    missed_rounds: int = 0  # before the server first heard of it
    rounds: int = 0  # answered since then
    work_s: float = 0.0  # what servers have done for it since then
    gpu_s: float = 0.0  # share of a server that a round takes: the last calls of its goal-coupled components
    streams: dict[str, Rounds] = field(default_factory=dict)  # component ->
    gpu_of: dict[str, float] = field(default_factory=dict)  # component -> of its last call

    @property
    def acting(self) -> Rounds | None:
        """The stream whose answers the robot carries out."""
        return self.streams.get(SYSTEM1)


class Order(ABC):
    """One policy."""

    uses_rounds = False  # whether it looks at `TaskSeen`; otherwise none are kept
    moves = False  # whether the rank of a waiting call may change

    def moves_while_waiting(self, now_s: float, call: Call) -> bool:
        """Whether the rank of this call changes while it waits."""
        return self.moves

    @abstractmethod
    def rank(self, now_s: float, call: Call, task: TaskSeen) -> Rank:
        """Where a waiting call stands."""


class EarliestDeadline(Order):
    """The call with the least time left. A fresher request keeps the deadline of the one that it replaced."""

    def rank(self, now_s: float, call: Call, task: TaskSeen) -> Rank:
        return (call.rank_s,)


class FirstCome(Order):
    """The stream that has waited longest. A fresher request keeps the place of the one that it replaced."""

    def rank(self, now_s: float, call: Call, task: TaskSeen) -> Rank:
        return (call.since_s,)


class LeastAttainedService(Order):
    """The stream for which models have run the shortest time (Autellix)."""

    uses_rounds = True
    moves = True

    def rank(self, now_s: float, call: Call, task: TaskSeen) -> Rank:
        rounds = task.streams.get(call.component)
        return 0.0 if rounds is None else rounds.attained_s, call.since_s


class Kairos(Order):
    """Kairos, Algorithm 1: buckets of the wait ratio, the longest expected execution first within a bucket.

    Waits between recorded rounds count, as written, so tasks under way finish before new ones begin. Ageing counts
    waiting time instead of skipped dispatches: with a hundred waiting calls every one of them is skipped a hundred
    times within seconds, and the buckets would not act. In line 11 a skip is one generation's time of waiting.
    `buckets`: B, 0 for none (the ratio itself). `ageing_s`: A; a call rises by one bucket for each A of waiting.
    `longest_first`: false orders a bucket by arrival, as in the ablation of Figure 16. `new_first`: a task without a
    recorded round leads its bucket; Algorithm 1 does not say what its execution is expected to be, and as written it
    is 0.
    """

    uses_rounds = True
    moves = True

    def __init__(
        self, buckets: int, ageing_s: float, longest_first: bool = True, new_first: bool = False
    ) -> None:
        self._buckets, self._ageing_s = buckets, ageing_s
        self._longest_first, self._new_first = longest_first, new_first

    def rank(self, now_s: float, call: Call, task: TaskSeen) -> Rank:
        rounds = task.streams.get(call.component) or Rounds(now_s)
        waits_s = max(0.0, now_s - call.since_s)
        bucket = self.bucket(rounds.wait_ratio(now_s), waits_s)
        if not self._longest_first:
            return -bucket, call.since_s
        skipped = waits_s / rounds.generated_s if rounds.generated_s else 0.0
        estimate_s = rounds.last_execution_s * (1 + skipped)
        if self._new_first and not rounds.last_execution_s:
            estimate_s = math.inf
        return -bucket, -estimate_s, call.since_s

    def bucket(self, ratio: float, waits_s: float) -> float:
        """Lines 6 to 8 of Algorithm 1. The highest bucket runs first."""
        if not self._buckets:
            return ratio
        bucket = min(self._buckets - 1, math.floor(ratio * self._buckets))
        if waits_s >= self._ageing_s:
            bucket = min(self._buckets - 1, bucket + math.ceil(waits_s / self._ageing_s))
        return bucket


class RemainingWork(Order):
    """By deadline where one is near; among all others the task with the shortest expected remaining work first, less
    its age.

    Remaining work is what a server has to do until the task ends: its expected remaining acted seconds, learned from
    ended tasks, divided by what the last round executed, times the server's time per round. Seconds of age count for
    seconds of work by the fleet's `Turnover.age_weight`, at least `min_age_weight`: a task goes before every one that
    begins more than (its remaining work / min_age_weight) later. Calls within `URGENT_S` of their deadline, those of
    periodic components among them, go first, in the order of their deadlines. Before any length is known the others
    go in the order of arrival.
    """

    uses_rounds = True
    moves = True

    def __init__(self, lengths: TaskLengths, turnover: Turnover, min_age_weight: float) -> None:
        self._lengths, self._turnover, self._min_age_weight = lengths, turnover, min_age_weight

    def moves_while_waiting(self, now_s: float, call: Call) -> bool:
        return not self._urgent(now_s, call)

    def rank(self, now_s: float, call: Call, task: TaskSeen) -> Rank:
        if self._urgent(now_s, call):
            return 0.0, call.rank_s, 0.0
        round_s = self._lengths.round_s(task.kind)
        if not round_s:
            return 1.0, call.since_s, 0.0
        # A robot that says nothing of its tasks has waited since its call, so that its session's age does not count.
        age_s = now_s - (call.since_s if task.number is None else task.began_s)
        return 1.0, self._work_s(task, round_s) - self.age_weight * age_s, call.since_s

    @property
    def age_weight(self) -> float:
        """Seconds of a server's work that one second of a task's age counts for now."""
        guesses = SURE_OF / max(1, min(SURE_OF, len(self._lengths)))
        return max(self._min_age_weight * guesses, self._turnover.age_weight)

    def work_s(self, task: TaskSeen) -> float:
        """The time of a server that the task is expected to need yet; 0 while nothing is known of any length."""
        round_s = self._lengths.round_s(task.kind)
        return self._work_s(task, round_s) if round_s else 0.0

    def _work_s(self, task: TaskSeen, round_s: float) -> float:
        acting, acted_s = task.acting, 0.0
        if acting is not None and acting.last_execution_s:
            round_s = acting.last_execution_s
            acted_s = acting.acted_s + task.missed_rounds * round_s
        return self._lengths.left_s(task.kind, acted_s) / round_s * (task.gpu_s or self._turnover.gpu_s)

    @staticmethod
    def _urgent(now_s: float, call: Call) -> bool:
        return call.component not in GOAL_COUPLED or call.deadline_s - now_s <= URGENT_S
