"""From which schedule on the workers of a replica count. Pure.

The epoch of a schedule is its number: it rises with each one that a server adopts. A worker is told the epoch in which
it is started, and says it in whatever it sends. One that was cut off while its replica left the schedule, and came back
in a later one, is refused by that number. A worker whose replica stays as it is goes on through any number of epochs.
"""

from __future__ import annotations

from rosa_server.plan.placement import Placement, Replica, replica_name

OLD_EPOCH = "old_epoch"  # the cause with which it is refused


class Epochs:
    """Since which epoch each replica of the placement has been as it is."""

    def __init__(self, placement: Placement) -> None:
        self._now = placement.epoch
        self._since = dict.fromkeys(placement.replicas, placement.epoch)

    def adopted(self, before: Placement, after: Placement) -> None:
        """Another placement holds. A replica that is as it was keeps its workers."""
        self._now = after.epoch
        self._since = {
            name: self._since[name] if same(before.replicas.get(name), one) else after.epoch
            for name, one in after.replicas.items()
        }

    def required(self, worker_id: str) -> int:
        """The epoch in which a worker of this name must have been started, or in a later one; that of now where its
        replica is in the schedule no more."""
        return self.since(replica_name(worker_id))

    def since(self, replica: str) -> int:
        """The epoch since which a replica has been as it is; that of now where it is in the schedule no more."""
        return self._since.get(replica, self._now)


def same(before: Replica | None, after: Replica | None) -> bool:
    """Whether the workers of one are those of the other; of no replica nobody is."""
    if before is None or after is None:
        return False
    one, other = ((each.model, each.server, each.node, each.engine) for each in (before, after))
    return one == other
