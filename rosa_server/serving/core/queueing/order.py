"""In which order waiting calls go to workers: what is seen of their streams and tasks, the policies, and the ranks.

A policy (`gateway.order`) is a pure function of the time, a call and what the server has seen of its stream and task;
the smallest rank runs first. No policy can break a deadline's rules: expired calls leave the queue before it is asked,
and the batcher decides how many of the first calls can run together in time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field

from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1
from rosa_contract.wire.messages import TaskEnds
from rosa_contract.wire.progress import DONE, FAILED, Progress
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.queueing.lengths import TaskLengths
from rosa_server.timing.batches import URGENT_S

SURE_OF = 200  # ended tasks; while fewer are known what is left is a guess, and age counts for more
LEARNED_FROM = (DONE, FAILED)  # after the other outcomes a task was not as long as it would have been

CLOSED_SHARES = 16.0  # a closed fleet's age weight, in shares of a server that a task gets
AT_ONCE = 0.25  # of a task's time: a robot that begins its next one within it has not waited for work
MIN_AT_ONCE_S = 1.0
SMOOTHING = 0.1  # weight of the newest ended task

Rank = tuple[float, ...]


@dataclass(slots=True)
class Rounds:
    """The history of one stream's rounds in a few numbers: how long models ran for it, its robot acted, and it waited.

    A round is a generation (a model runs a call) and the execution that follows it (Kairos 3.2.1). A robot acts from
    the answer on. When it will have finished it says with its next call (`acts_until_s`); one that says nothing has
    finished when that call arrives. Times are seconds.
    """

    began_s: float  # first arrival
    attained_s: float = 0.0  # time that models have run for it
    acted_s: float = 0.0  # the sum of the executions that are known to have ended
    waited_s: float = 0.0  # the sum of W_j of Algorithm 1: waits between recorded rounds
    generated_s: float = 0.0  # |G| of the last answered round
    last_execution_s: float = (
        0.0  # |E| of the last recorded round, the estimate for the next one; 0 before it
    )
    _generation_end_s: float = math.inf  # infinite before the first answer
    _execution_start_s: float = 0.0
    _execution_end_s: float = math.inf  # infinite while the robot acts on its last answer, as far as is known

    def arrived(self, now_s: float, acts_until_s: float | None = None) -> None:
        """A call arrived. The first one after an answer ends that answer's execution; repeated ones change nothing."""
        if math.isfinite(self._generation_end_s) and math.isinf(self._execution_end_s):
            until_s = now_s if acts_until_s is None else acts_until_s
            self._execution_end_s = max(until_s, self._execution_start_s)
            self.last_execution_s = self._execution_end_s - self._execution_start_s
            self.acted_s += self.last_execution_s

    def answered(self, start_s: float, end_s: float) -> None:
        """A model has run a call of this stream, and its output was sent.

        The wait between two rounds is counted on the side that dominates the first one (3.2.1): after a longer
        generation from its end to the next one's start, after a longer execution from its end to the next one's start.
        """
        self.waited_s += self._wait_before(start_s, end_s)
        acts_from_s = max(end_s, self._execution_end_s) if math.isfinite(self._execution_end_s) else end_s
        self.generated_s = end_s - start_s
        self._generation_end_s, self._execution_start_s = end_s, acts_from_s
        self._execution_end_s = math.inf

    def wait_ratio(self, now_s: float) -> float:
        """Equation (1) of Kairos: the share of its lifetime that the stream has waited between rounds, from 0 to 1."""
        lifetime_s = now_s - self.began_s
        return min(1.0, self.waited_s / lifetime_s) if lifetime_s > 0 else 0.0

    def _wait_before(self, start_s: float, end_s: float) -> float:
        """The wait between the last round and one whose generation is from `start_s` to `end_s`."""
        if math.isinf(self._generation_end_s) or math.isinf(self._execution_end_s):
            return 0.0  # no round was recorded before it
        if self.generated_s >= self.last_execution_s:
            return max(0.0, start_s - self._generation_end_s)
        return max(0.0, end_s - self._execution_end_s)


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


class Turnover:
    """How a fleet takes its tasks: one after another without a pause (closed), or as they come (open).

    In an open fleet the shortest work first shortens the mean for everybody. In a closed one the mean is given by the
    number of robots and what the servers carry (Little's law): to favour some only makes others late, so there age has
    to count for more. A fleet counts as closed until its robots are seen to wait for work.
    """

    def __init__(self) -> None:
        self.closed = 1.0  # share of ended tasks whose robot began another one at once
        self.took_s = 0.0  # a task's time, from its first call to its end
        self.work_s = 0.0  # of a server, per task
        self.gpu_s = 0.0  # of a server, per round: of the last answered one
        self._ended_s: OrderedDict[bytes, float] = OrderedDict()  # robots that have not begun another one

    @property
    def age_weight(self) -> float:
        """Seconds of work for a second of age: what a task gets of a server while it lasts, where the fleet is closed.

        A task that waits while others get that share is then owed a multiple of what it would have had. The square: a
        fleet that half of the time waits for work is an open one rather, and a server that has seen little is soon rid
        of the assumption that the fleet is closed.
        """
        return CLOSED_SHARES * self.closed**2 * self.work_s / self.took_s if self.took_s else 0.0

    def begins(self, now_s: float, connection: bytes) -> None:
        """A robot begins a task."""
        self._look(now_s)
        if self._ended_s.pop(connection, None) is not None:
            self._count(1.0)

    def ends(self, now_s: float, connection: bytes, took_s: float, work_s: float) -> None:
        """A robot's task is over."""
        self._look(now_s)
        self._ended_s[connection] = now_s
        first = not self.took_s
        self.took_s += (1.0 if first else SMOOTHING) * (took_s - self.took_s)
        self.work_s += (1.0 if first else SMOOTHING) * (work_s - self.work_s)

    def leaves(self, connection: bytes) -> None:
        """A robot is gone, without another task."""
        if self._ended_s.pop(connection, None) is not None:
            self._count(0.0)

    def _look(self, now_s: float) -> None:
        """Robots that have not begun another task for a while wait for work."""
        limit_s = now_s - max(MIN_AT_ONCE_S, AT_ONCE * self.took_s)
        while self._ended_s and next(iter(self._ended_s.values())) < limit_s:
            self._ended_s.popitem(last=False)
            self._count(0.0)

    def _count(self, closed: float) -> None:
        self.closed += SMOOTHING * (closed - self.closed)


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


class Ranking:
    """A policy with what it looks at: ranks waiting calls, and keeps a few numbers for each task under way while its
    robot's session lasts."""

    def __init__(
        self, order: Order, lengths: TaskLengths | None = None, turnover: Turnover | None = None
    ) -> None:
        self.order = order
        self.lengths = lengths if lengths is not None else TaskLengths()
        self.turnover = turnover if turnover is not None else Turnover()
        self._tasks: dict[bytes, TaskSeen] = {}  # connection ->

    def __len__(self) -> int:
        return len(self._tasks)

    def rank(self, now_s: float, call: Call) -> Rank:
        """Where a waiting call stands: behind all others if its robot sends too fast. Equal ranks go by ticket."""
        task = self._tasks.get(call.connection) or TaskSeen(call.arrived_s)
        return call.over_rate, *self.order.rank(now_s, call, task), call.ticket

    def task(self, connection: bytes) -> TaskSeen | None:
        """What is known of a robot's task; None when nothing is kept, or it has left."""
        return self._tasks.get(connection)

    def arrived(
        self, now_s: float, call: Call, task_name: str = "", progress: Progress | None = None
    ) -> None:
        """A robot has sent a call that may wait. With another number its task is another one."""
        if not self.order.uses_rounds:
            return
        number = None if progress is None else progress.task
        task = self._tasks.get(call.connection)
        if task is None or (task.number != number and call.component in GOAL_COUPLED):
            task = self._tasks[call.connection] = TaskSeen(now_s, number)
            if progress is not None:
                task.kind, task.missed_rounds = f"{task_name}: {progress.kind}", progress.round
                self.turnover.begins(now_s, call.connection)
        acts_until_s = None if progress is None else now_s + progress.acts_ms / 1000
        rounds = task.streams.get(call.component)
        if rounds is None:
            rounds = task.streams[call.component] = Rounds(now_s)
        rounds.arrived(now_s, acts_until_s)

    def executed(self, now_s: float, call: Call, service_s: float, good: bool, size: int = 1) -> None:
        """A worker has run a batch of `size` for `service_s` and has just returned this call of it.

        Without a good output no round began.
        """
        task = self._tasks.get(call.connection)
        rounds = task.streams.get(call.component) if task is not None else None
        if task is None or rounds is None:
            return
        rounds.attained_s += service_s
        if not good:
            return
        rounds.answered(max(call.dispatched_s, now_s - service_s), now_s)
        if call.component in GOAL_COUPLED:
            share_s = service_s / max(1, size)
            task.gpu_s += share_s - task.gpu_of.get(call.component, 0.0)
            task.gpu_of[call.component] = share_s
            task.rounds += rounds is task.acting
            task.work_s += share_s
            self.turnover.gpu_s = task.gpu_s

    def task_ends(self, now_s: float, connection: bytes, ends: TaskEnds) -> None:
        """A robot says that its task is over. Of one that the server did not see begin nothing is learned."""
        task = self._tasks.get(connection)
        if task is None or task.number != ends.task:
            return
        del self._tasks[connection]
        acting = task.acting
        if acting is not None and not task.missed_rounds and ends.outcome in LEARNED_FROM:
            acting.arrived(now_s)
            self.lengths.ended(task.kind, acting.acted_s, task.rounds)
            self.turnover.ends(now_s, connection, now_s - task.began_s, task.work_s)

    def forget(self, connection: bytes) -> None:
        """The session on this connection has ended."""
        self._tasks.pop(connection, None)
        self.turnover.leaves(connection)
