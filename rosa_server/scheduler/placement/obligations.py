"""Step 1 of the solver: obligation models get the fewest servers that keep their SLOs (ROSA 3.4.2, equation (2))."""

from __future__ import annotations

from math import inf

from rosa_server.scheduler.placement.packing import Kind, Packer
from rosa_server.scheduler.placement.placement import Worker, demands_of, is_goal_kind, kinds_of, workers_of
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog


def provision_obligations(catalog: Catalog, problem: Problem) -> list[Worker] | None:
    """Workers of all kinds that serve obligations only, as few as possible; None when an SLO cannot be kept at all."""
    workers: list[Worker] = []
    for kind in obligation_kinds(catalog, problem):
        packer = Packer(catalog, kind, demands_of(problem, kind, {}))
        fewest = packer.fewest()
        bins = None if fewest == inf else packer.pack(int(fewest))
        placed = None if bins is None else workers_of(catalog, kind, bins)
        if placed is None:
            return None
        workers += placed
    return workers


def obligation_kinds(catalog: Catalog, problem: Problem) -> list[Kind]:
    return [k for k in kinds_of(problem, catalog.options.share_components) if not is_goal_kind(problem, k)]


def goal_kinds(catalog: Catalog, problem: Problem) -> list[Kind]:
    return [k for k in kinds_of(problem, catalog.options.share_components) if is_goal_kind(problem, k)]
