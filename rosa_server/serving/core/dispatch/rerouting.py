"""What follows when streams move to another replica, or the placement itself changes.

Queues, batches, waiting calls and what robots were told all follow from the routes; here they are brought up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rosa_server.serving.core.dispatch.dispatcher import Dispatcher
from rosa_server.serving.core.queueing.actions import Action, Note, Say
from rosa_server.serving.core.sessions.router import Router
from rosa_server.serving.core.sessions.session import Sessions


class Rerouting:
    """Brings sessions, queues and calls up to date with the router."""

    def __init__(
        self,
        router: Router,
        sessions: Sessions,
        dispatcher: Dispatcher,
        send: Callable[[Iterable[Action]], None],
    ) -> None:
        """`send` queues actions behind all that the dispatcher has decided so far."""
        self._router, self._sessions, self._dispatcher, self._send = router, sessions, dispatcher, send
        self._rates_sent = {task: router.rates_of(task) for task in router.tasks}

    def streams_moved(self, now_s: float, moves: Mapping[str, str], why: str) -> None:
        """`moves`: replicas whose streams another replica runs from now on, and which."""
        self._send(Note("streams_moved", {"of": of, "to": to, "reason": why}) for of, to in moves.items())
        pool = self._dispatcher.pool
        for worker in pool:
            queue = self._router.failover.feeds_from(worker.replica)
            if queue != worker.queue and not worker.apart:
                pool.feed_from(worker, queue)
                self._dispatcher.lanes[queue].wake(now_s)
        self._update_batching()
        if moves:
            self.count_callers()
            self._reroute(now_s)

    def adopted(self, now_s: float, moves: Mapping[str, str]) -> None:
        """Another placement holds: replicas, pools and standbys may be others. `moves` as for `streams_moved`."""
        self._dispatcher.adopt(self._router.placement.replicas.values())
        self._sessions.update_routes()
        self.streams_moved(now_s, moves, "the schedule has changed")
        self.placement_changed(now_s, moved=True)

    def placement_changed(self, now_s: float, moved: bool = False) -> None:
        """Routes, batches and rates of robots that are here may have changed. `moved`: routes have for certain."""
        self._update_batching()
        moved |= self._sessions.update_routes()
        self.count_callers()
        if moved:
            self._reroute(now_s)
        rates = {task: self._router.rates_of(task) for task in self._router.tasks}
        changed = {task for task, sent in self._rates_sent.items() if sent != rates[task]}
        self._rates_sent = rates
        told = self._sessions.of_tasks(changed)
        self._send(Say(each.connection, self._sessions.welcome(each, now_s)) for each in told)

    def count_callers(self) -> None:
        """How many streams may call each queue."""
        for name, lane in self._dispatcher.lanes.items():
            lane.callers = self._sessions.callers(name)

    def _reroute(self, now_s: float) -> None:
        """Streams have moved: every open call belongs to the queue of its stream now."""
        for call in self._dispatcher.ledger:
            session = self._sessions.get(call.connection)
            if session is not None and call.queue is not None:
                call.queue = self._router.failover.queue_of(session.routes[call.component])
        self._dispatcher.requeue(now_s)

    def _update_batching(self) -> None:
        """A replica that stands in for another one batches as planned for that one."""
        replicas = self._router.placement.replicas
        for name, lane in self._dispatcher.lanes.items():
            if name not in replicas and not self._router.failover.pool(name):
                continue  # of an earlier placement
            served = self._router.failover.served_by(name)
            plan = replicas[served[-1] if served else name]
            lane.batch_as(plan)
