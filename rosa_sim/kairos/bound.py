"""What an order could do that knew the future. It can be done; what nobody can do says `lower_bound.py`."""

from __future__ import annotations

from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.queueing.order import Order, Rank, TaskSeen
from rosa_sim.kairos.replay import Replay


class Clairvoyant(Order):
    """The task with the fewest rounds left first (SRPT): it minimises the mean on one server without batches and
    without executions."""

    uses_rounds = True
    moves = True

    def __init__(self, replay: Replay) -> None:
        self._runs = replay.runs()

    def rank(self, now_s: float, call: Call, task: TaskSeen) -> Rank:
        run = self._runs[call.connection]
        return len(run.task.executions_s) - run.round, call.since_s
