"""Which replica runs the streams of a failed one (ROSA 3.4.4): a look-up in the schedule's table, never a search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rosa_server.plan.placement import Replica


class Failover:
    """Which replicas are warm, which have failed, and which standby stands in for which.

    A replica that has not warmed up yet has not failed. When a failed replica is warm again, its streams return to it.
    """

    def __init__(self, replicas: Mapping[str, Replica], standbys: Mapping[str, tuple[str, ...]]) -> None:
        """`standbys`: replica -> the replicas that may stand in for it, best first."""
        self._warm: set[str] = set()
        self._failed: dict[str, None] = {}  # in the order of failing: the first gets the standby
        self._instead: dict[str, str] = {}  # failed replica -> the standby that runs its streams
        self._place(replicas, standbys)

    def _place(self, replicas: Mapping[str, Replica], standbys: Mapping[str, tuple[str, ...]]) -> None:
        self._replicas, self._standbys = replicas, standbys
        self._pools: dict[str, tuple[str, ...]] = {}
        for replica in replicas.values():
            if replica.pool:
                self._pools[replica.pool] = (*self._pools.get(replica.pool, ()), replica.id)

    def adopt(
        self, replicas: Mapping[str, Replica], standbys: Mapping[str, tuple[str, ...]]
    ) -> dict[str, str]:
        """Other replicas from now on. Returns those whose streams move, and where to; those that stay are as warm, and
        as failed, as they were."""
        self._place(replicas, standbys)
        self._warm &= set(replicas)
        self._failed = {name: None for name in self._failed if name in replicas}
        self._instead = {
            name: standby
            for name, standby in self._instead.items()
            if name in replicas and standby in standbys.get(name, ()) and standby in replicas
        }
        return self._settle()

    def now(self, replica: str) -> str:
        """The replica that runs the streams of `replica` now."""
        return self._instead.get(replica, replica)

    def is_live(self, replica: str) -> bool:
        """Whether a warm worker runs the streams of `replica`: its own, its standby's, or, once it has failed, another
        one of its pool."""
        if self.now(replica) in self._warm:
            return True
        pool = self._replicas[replica].pool
        return (
            bool(pool)
            and replica in self._failed
            and any(self.now(m) in self._warm for m in self._pools[pool])
        )

    def pool(self, name: str) -> tuple[str, ...]:
        """The replicas of a pool as placed; empty for a queue that is no pool."""
        return self._pools.get(name, ())

    def queue_of(self, replica: str) -> str:
        """The queue in which the calls of the streams of `replica` wait now."""
        return self._replicas[replica].pool or self.now(replica)

    def feeds_from(self, replica: str) -> str:
        """The queue from which the workers of `replica` take calls now: a standby joins the pool of a failed one."""
        own = self._replicas[replica]
        if own.standby:
            for failed, standby in self._instead.items():
                if standby == replica and self._replicas[failed].pool:
                    return self._replicas[failed].pool
        return own.queue

    def first_cold(self, replicas: Iterable[str]) -> Replica | None:
        """The first of these replicas whose streams no warm worker runs."""
        return next((self._replicas[name] for name in replicas if not self.is_live(name)), None)

    def served_by(self, replica: str) -> tuple[str, ...]:
        """The replicas whose streams the queue of `replica`, or a pool of this name, runs now."""
        if replica in self._pools:
            return self._pools[replica]
        own = () if replica in self._instead else (replica,)
        return own + tuple(failed for failed, standby in self._instead.items() if standby == replica)

    def covered(self, replica: str, without: Collection[str]) -> bool:
        """Whether others could run the streams of `replica` if the replicas `without` were gone."""
        pool = self._pools.get(self._replicas[replica].pool, ())
        if any(one != replica and one not in without and self.now(one) in self._warm for one in pool):
            return True
        busy = {self._replicas[standby].server for standby in self._instead.values()}
        standbys = (
            one for one in self._standbys.get(replica, ()) if one in self._warm and one not in without
        )
        return any(self._replicas[one].server not in busy for one in standbys)

    def warm(self, replica: str) -> dict[str, str]:
        """A replica has a warm worker. Returns the replicas whose streams move, and where to."""
        self._warm.add(replica)
        self._failed.pop(replica, None)
        return self._settle()

    def lost(self, replica: str) -> dict[str, str]:
        """A replica has no worker any more. Returns the replicas whose streams move, and where to."""
        self._warm.discard(replica)
        self._failed[replica] = None
        return self._settle()

    def _settle(self) -> dict[str, str]:
        before = dict(self._instead)
        for replica, standby in before.items():
            if replica not in self._failed or standby not in self._warm:
                del self._instead[replica]
        for replica in self._failed:
            if replica not in self._instead:
                busy = {self._replicas[standby].server for standby in self._instead.values()}
                for standby in self._standbys.get(replica, ()):
                    if standby in self._warm and self._replicas[standby].server not in busy:
                        self._instead[replica] = standby
                        break
        touched = {**before, **self._instead}
        return {
            replica: self.now(replica)
            for replica in touched
            if before.get(replica, replica) != self.now(replica)
        }
