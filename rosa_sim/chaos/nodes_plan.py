"""A plan for several nodes, drawn from a seed: which fleet, how many gateways, what goes wrong between them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from rosa_sim.chaos.plan import KINDS, NODE_KINDS, OF_SERVERS, SERVERS, Fault, Plan

# Of the faults of a single gateway, those that happen here as well.
SINGLE = (
    "worker_killed",
    "worker_slow",
    "message_loss",
    "message_delay",
    "message_duplication",
    "message_reordering",
    "partition",
    "robot_restarted",
)
DRAWN = (*NODE_KINDS, *NODE_KINDS, *SINGLE)  # twice as often what is new here
OF_NODES = ("node_killed", "node_cut")
COUNTS = (2, 2, 2, 3, 3, 4, 4, 6, 8, 16)
FLEETS = (8, 16, 32)


def nodes_plan_of(seed: int, seconds: float | None = None, robots: int | None = None, nodes: int = 0) -> Plan:
    """The plan of a seed. Its faults do not depend on the defaults of the others: each is drawn in any case."""
    rng = Random(f"nodes {seed}")
    drawn_s, drawn_robots, drawn_nodes = (
        rng.choice((30.0, 60.0, 120.0)),
        rng.choice(FLEETS),
        rng.choice(COUNTS),
    )
    seconds, robots, nodes = seconds or drawn_s, robots or drawn_robots, nodes or drawn_nodes
    plan = Plan(
        seed,
        rng.choice(("p4", "p4", "mix4")),
        robots,
        seconds,
        (),
        standby=rng.choice((0, 1, 1)),
        control_period_s=0.02,
        jitter_ms=rng.choice((0.0, 0.0, 2.0)),
        nodes=nodes,
    )
    faults = [_fault(rng, seconds, robots, nodes) for _ in range(rng.randint(2, 3 + int(seconds / 10)))]
    if rng.random() < 0.3:  # several at once
        at_s = rng.uniform(0.0, seconds * 0.8)
        faults += [_fault(rng, seconds, robots, nodes, at_s) for _ in range(rng.randint(2, 3))]
    return replace(plan, faults=tuple(sorted(faults, key=lambda fault: fault.at_s)))


def _fault(rng: Random, seconds: float, robots: int, nodes: int, at_s: float | None = None) -> Fault:
    kind = rng.choice(DRAWN)
    _, low, high = {**KINDS, **NODE_KINDS}[kind]
    amount = low * (high / low) ** rng.random() if low > 0 else rng.uniform(low, high)
    many = (
        nodes if kind in OF_NODES or kind.startswith("peer_") else SERVERS if kind in OF_SERVERS else robots
    )
    count = min(many, 1 + int(rng.expovariate(1.0)))
    targets = tuple(sorted(rng.sample(range(many), count))) if kind != "adopted" else ()
    when_s = rng.uniform(0.0, seconds * 0.95) if at_s is None else at_s
    lasts_s = min(rng.choice((0.3, 1.0, 3.0, 8.0)) * rng.uniform(0.5, 1.5), seconds - when_s)
    return Fault(round(when_s, 6), kind, round(lasts_s, 6), round(amount, 6), targets)
