"""Which waiting calls go to the cloud (Kairos 3.2.3): those whose answer from there is expected before the edge would
even begin with them. Pure; the gateway and the simulators ask it whenever a worker in the cloud is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

EDGE, CLOUD = "edge", "cloud"
AWAY = 8  # batches that a worker in the cloud may hold: they travel while others run


@dataclass(frozen=True)
class Edge:
    """What the edge is doing: in how many seconds it is free next, how long a full batch runs, and how many calls its
    workers run meanwhile."""

    free_in_s: float
    round_s: float
    places: int

    def wait_s(self, position: int) -> float:
        """How long a call waits there before it runs, with `position` calls before it."""
        return max(0.0, self.free_in_s) + self.round_s * (position // max(1, self.places))


def overflow(
    edge: Edge, budgets_s: Sequence[float], room: int, cloud_latency_s: Callable[[int], float]
) -> list[int]:
    """Positions of the calls that go to the cloud now, at most `room`, in order.

    `budgets_s`: seconds to each waiting call's deadline, in the order in which they run; the edge is busy, or has taken
    its part. `cloud_latency_s`: from sending a batch of a size to its answer, the link both ways included. A call that
    would be late from the cloud as well stays.
    """
    gone: list[int] = []
    for position, budget_s in enumerate(budgets_s):
        if len(gone) == room:
            break
        latency_s = cloud_latency_s(len(gone) + 1)
        if latency_s < edge.wait_s(position - len(gone)) and latency_s < budget_s:
            gone.append(position)
    return gone
