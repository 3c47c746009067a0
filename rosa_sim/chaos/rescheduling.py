"""Another schedule for the servers that run, as a rescheduling may bring it: other routes, other queues, a server less.

Random, and not good: the promises have to hold on any placement whose routes lead to servers of the right model.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from rosa_server.plan.placement import Placement

MOVES, ALONE, SLOWER, LEAVES = 0.5, 0.3, 0.5, 0.5  # shares: of routes, of servers in pools, of runs, of runs


def another(placement: Placement, rng: Random) -> Placement:
    """A placement with the same slots. Every component stays with servers that answer it."""
    routes = {slot: dict(each) for slot, each in (placement.routes or {}).items()}
    answers: dict[tuple[str, str], set[str]] = {}  # component, model -> replicas
    for each in routes.values():
        for component, name in each.items():
            answers.setdefault((component, placement.replicas[name].model), set()).add(name)
    replicas = {
        name: replace(one, pool="") if one.pool and rng.random() < ALONE else one
        for name, one in placement.replicas.items()
    }
    spared = sorted(
        name
        for name in replicas
        if not replicas[name].standby and all(len(found - {name}) > 0 for found in answers.values())
    )
    if spared and rng.random() < LEAVES:
        gone = rng.choice(spared)
        del replicas[gone]
    for each in routes.values():
        for component, name in each.items():
            if name not in replicas or rng.random() < MOVES:
                model = placement.replicas[name].model
                each[component] = rng.choice(sorted(answers[component, model] & replicas.keys()))
    standbys = {name: some for name, some in placement.standbys.items() if name in replicas}
    rates = placement.rates_hz
    if rng.random() < SLOWER:
        rates = {task: {name: hz * 0.7 for name, hz in each.items()} for task, each in rates.items()}
    return replace(placement, replicas=replicas, routes=routes, standbys=standbys, rates_hz=rates)
