"""`drain`: a server of the schedule gets no more calls, ends, and stays away until it is given back."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rosa_contract.wire.watching import Order
from rosa_server.plan.placement import replica_name
from rosa_server.serving.operations.operation import End, Operation
from rosa_server.serving.operations.order import OperationError, Site


class Draining(Operation):
    """Ends the workers of one server."""

    def __init__(self, site: Site, order: Order, now_s: float) -> None:
        """Raises `OperationError` where streams would be left without a worker."""
        names = site.of_server(order.target)
        super().__init__(site, order, names, now_s)
        _check_covered(site, names, site.state.drained)
        for name in names:  # in the order that was checked: the first gets the standby
            site.cluster.hold(name, True)
            warm = site.warm([name])
            for worker_id in warm:
                self.retirement.add(now_s, worker_id)
            if not warm:  # one that loads its model ends as soon as it is ready
                site.core.on_lost(now_s, f"{name}.0", "it is drained")
        site.state.drained |= set(names)
        site.state.save()

    def step(self, now_s: float, gone: Mapping[str, str]) -> End | None:
        self.retirement.step(now_s)
        if self.retirement:
            return None
        if self.cancelled:
            return End("cancelled", f"{self.order.target} is not drained: it starts again")
        return End("", f"{self.order.target} is drained")

    def cancel(self, now_s: float) -> None:
        """Its workers start again; those that retire already end before."""
        self.cancelled = True
        for name in self.names:
            self.site.cluster.hold(name, False)
        self.site.state.drained -= self.names
        self.site.state.save()

    @property
    def doing(self) -> str:
        return f"{len(self.retirement)} of {len(self.names)} workers have to finish what they run"


def _check_covered(site: Site, names: Collection[str], drained: Collection[str]) -> None:
    leaving = {*names, *drained}
    left = {
        worker.replica
        for worker in site.core.pool
        if worker.worker_id.rpartition(".")[0] not in leaving and not worker.apart
    }
    emptied = dict.fromkeys(replica_name(name) for name in names if replica_name(name) not in left)
    if stranded := site.core.router.failover.stranded(emptied):
        streams = ", ".join(stranded)
        words = f"nobody else can run the streams of {streams}: no other worker, and no warm standby"
        raise OperationError("nobody_else", words)
