"""One gateway's part of a schedule that several share: its workers are those that what runs has for its node.

Whoever changes the schedule hands out one after the other (`fleet_reschedule.py`), and a gateway that was away gets the
last one when it is back; either way workers of servers that are new here start, and those of servers that are gone end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rosa_contract.errors import CausedError, ConfigError
from rosa_server.plan.placement import replica_name
from rosa_server.serving.base import log
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.operations.order import Site
from rosa_server.serving.operations.rollout import begin_with, rolled_out

Runs = dict[str, tuple[str, str, str]]  # name of a worker -> what it is: model, server, engine


class OwnPart:
    """Of one gateway of several. `node`: its core."""

    def __init__(self, site: Site, node: NodeCore, tell: Callable[[str, str], None]) -> None:
        """`tell`: says why to the gateway of a node that changes the schedule: workers did not start."""
        self._site, self._node, self._tell = site, node, tell
        self._epoch = 0  # of what runs, as far as workers follow it; 0: nobody has looked
        self._runs = self._wanted()
        self._starting: set[str] = set()  # workers that were added and are not warm yet
        self._dropped: set[str] = set()  # lives that end; others of their names may start meanwhile

    def _wanted(self) -> Runs:
        replicas = self._site.placement.replicas
        of = {name: replicas[replica] for name, (replica, _) in self._site.names().items()}
        return {name: (one.model, one.server, one.engine) for name, one in of.items()}

    def step(self, occupied: bool, gone: Mapping[str, str]) -> None:
        """`occupied`: something else is at work on servers here. `gone`: workers that have ended, and why."""
        self._node.succession.occupied = occupied
        self._node.room = self._site.cluster.room()
        if self._epoch != self._node.epoch:
            self._follow()
        for worker_id, why in gone.items():
            name = worker_id.rpartition(".")[0]
            if worker_id in self._dropped:
                self._dropped.discard(worker_id)
            elif name in self._starting:
                self._starting.discard(name)
                self._failed(f"{worker_id} ended before it was warm ({why})")
        self._starting -= {one.worker_id.rpartition(".")[0] for one in self._node.pool}

    def _follow(self) -> None:
        """What runs is another schedule."""
        plan, self._epoch = self._node.succession.plan, self._node.epoch
        log.event("schedule_runs", epoch=plan.epoch, file=plan.file)
        if plan.schedule and self._site.planner is not None:
            try:
                self._site.tells.rescheduled(self._site.planner.learned(plan.schedule, plan.file))
            except ConfigError as error:  # it serves all the same; another schedule is planned elsewhere
                log.error("schedule_not_read", epoch=plan.epoch, reason=str(error))
        wanted = self._wanted()
        weights = rolled_out(self._site, {name: model for name, (model, _, _) in self._runs.items()})
        for name in [name for name, what in self._runs.items() if wanted.get(name) != what]:
            self._dropped |= set(self._site.cluster.drop(name))
            del self._runs[name]
            self._starting.discard(name)
        added = wanted.keys() - self._runs.keys()
        if not added:
            return
        try:
            # As the core holds it: the workers are told its epoch.
            names = self._site.cluster.add(
                self._site.placement, sorted({replica_name(name) for name in added})
            )
        except CausedError as error:
            self._failed(str(error))
            return
        begin_with(self._site, names, weights)
        log.event("servers_added", epoch=plan.epoch, workers=names)
        self._starting |= set(names)
        self._runs |= {name: wanted[name] for name in names}

    def _failed(self, why: str) -> None:
        log.warning("server_not_started", epoch=self._epoch, reason=why)
        self._tell(self._node.succession.node, why)
