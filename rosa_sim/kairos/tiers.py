"""Servers at the edge and in the cloud, as the replay of traces knows them (Kairos 3.2.3, lines 15 to 19)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rosa_server.serving.core.batch_profile import BatchProfile
from rosa_server.serving.core.tiers import Edge, overflow

T = TypeVar("T")


@dataclass
class Tier:
    """One server. `link_s` is the way to it and also the way back, in seconds."""

    name: str
    profile: BatchProfile
    max_batch: int
    link_s: float = 0.0
    busy_until_s: float = -math.inf

    def latency_s(self, size: int) -> float:
        """From sending a batch to its answer, if the server is free."""
        return 2 * self.link_s + self.profile.service_s(size)

    def takes(self, now_s: float) -> int:
        """How many calls it takes now. The next batch travels while one runs."""
        return self.max_batch if self.busy_until_s <= now_s else 0


def assign(now_s: float, order: Sequence[T], edge: Tier, cloud: Tier | None) -> tuple[list[T], list[T]]:
    """The calls that the edge and the cloud are given now; the others go on waiting.

    The edge takes the first ones. A later one goes to the cloud when its answer from there is expected before the edge
    would even begin with it.
    """
    to_edge = list(order[: edge.takes(now_s)])
    rest = order[len(to_edge) :]
    room = 0 if cloud is None else cloud.takes(now_s)
    if cloud is None or not room:
        return to_edge, []
    free_s = edge.profile.service_s(len(to_edge)) if to_edge else edge.busy_until_s - now_s
    standing = Edge(free_s, edge.profile.service_s(edge.max_batch), edge.max_batch)
    gone = overflow(standing, [math.inf] * len(rest), room, cloud.latency_s)
    return to_edge, [rest[position] for position in gone]
