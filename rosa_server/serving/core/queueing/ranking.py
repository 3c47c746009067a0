"""A policy with what it has to know of the robots whose calls it ranks: a few numbers for each task under way."""

from __future__ import annotations

from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_contract.wire.messages import TaskEnds
from rosa_contract.wire.progress import DONE, FAILED, Progress
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.queueing.lengths import TaskLengths
from rosa_server.serving.core.queueing.order import Order, Rank, TaskSeen
from rosa_server.serving.core.queueing.rounds import Rounds
from rosa_server.serving.core.queueing.turnover import Turnover

LEARNED_FROM = (DONE, FAILED)  # after the other outcomes a task was not as long as it would have been


class Ranking:
    """Ranks waiting calls, and keeps what their policy looks at while their robots' sessions last."""

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
        task.streams.setdefault(call.component, Rounds(now_s)).arrived(now_s, acts_until_s)

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
