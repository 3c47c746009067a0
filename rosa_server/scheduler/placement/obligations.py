"""Step 1 of the solver: obligation models get the fewest servers that keep their SLOs (ROSA 3.4.2, equation (2))."""

from __future__ import annotations

from math import inf

from rosa_server.scheduler.placement.packing import Packer, ServerKind
from rosa_server.scheduler.placement.servers import (
    PlacedServer,
    demands_of,
    is_goal_kind,
    kinds_of,
    placed_servers,
)
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog


def provision_obligations(catalog: Catalog, problem: Problem) -> list[PlacedServer] | None:
    """As few servers as possible for all kinds that serve obligations only; None when an SLO cannot be kept at all."""
    placed: list[PlacedServer] = []
    for kind in obligation_kinds(catalog, problem):
        packer = Packer(catalog, kind, demands_of(problem, kind, {}))
        fewest = packer.fewest()
        packed = None if fewest == inf else packer.pack(int(fewest))
        servers = None if packed is None else placed_servers(catalog, kind, packed)
        if servers is None:
            return None
        placed += servers
    return placed


def obligation_kinds(catalog: Catalog, problem: Problem) -> list[ServerKind]:
    """The kinds of server that answer obligations only."""
    return [k for k in kinds_of(problem, catalog.options.share_components) if not is_goal_kind(problem, k)]
