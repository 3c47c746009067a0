"""A schedule on several nodes, each with a gateway: which server is on which, and what one node sees of the others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from rosa_contract.config.tasks import Task
from rosa_contract.wire.messages import SCHEMA_VERSION
from rosa_server.plan.change import Stage
from rosa_server.plan.fleet_plan import plain
from rosa_server.plan.placement import Placement, Replica

AT_ONCE = 64  # calls that one gateway may have forwarded to one replica of another node


@dataclass(frozen=True)
class NodePlan:
    """`server_on`: server -> node. `home`: slot -> the node whose gateway gives it out; it stays so in later schedules,
    as robots keep their slots. `gateways`: node -> where robots connect."""

    here: str
    server_on: Mapping[str, str]
    home: Mapping[str, str]
    gateways: Mapping[str, str]

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.gateways if name != self.here)


def homes(placement: Placement, server_on: Mapping[str, str], nodes: Sequence[str]) -> dict[str, str]:
    """Slot -> the node that answers most of its robot's components; of several, the one with the fewest slots."""
    found: dict[str, str] = {}
    counts = Counter(dict.fromkeys(nodes, 0))
    for slot, routes in (placement.routes or {}).items():
        near = Counter(server_on[placement.replicas[replica].server] for replica in routes.values())
        best = max(near.values())
        found[slot] = min(
            (node for node in near if near[node] == best), key=lambda node: (counts[node], node)
        )
        counts[found[slot]] += 1
    return found


class NoRoom(ValueError):
    """No node has a GPU for a server."""


def housed(
    stages: Sequence[Stage], server_on: Mapping[str, str], room: Mapping[str, int]
) -> list[dict[str, str]]:
    """Server -> node, for each stage of a change. A new server goes to a node that has a GPU for it by then: away from
    what stands in for it, or what it stands in for; then away from others of the same standby, which stands in for one
    of them only; then to one that runs its model already, and so has its weights; then to the one with the fewest
    servers. `room`: node -> further servers that it has GPUs for. Raises `NoRoom`."""
    at, free, found = dict(server_on), dict(room), []
    standbys = stages[-1].placement.standbys if stages else {}
    for stage in stages:
        replicas = stage.placement.replicas
        for server in dict.fromkeys(replicas[name].server for name in stage.starts):
            nodes = [node for node, left in free.items() if left > 0]
            if not nodes:
                raise NoRoom(f"no node has a free GPU for {server}")
            own = {name: one.model for name, one in replicas.items() if one.server == server}
            covers = {one for name in own for one in standbys.get(name, ())}
            rivals = {name for name, some in standbys.items() if covers & set(some)}
            beside = covers | {name for name, some in standbys.items() if own.keys() & set(some)}
            ranks = {}
            for node in nodes:
                there = [
                    one for one in replicas.values() if one.server != server and at.get(one.server) == node
                ]
                lacks = set(own.values()) - {one.model for one in there}
                close = [any(one.id in some for one in there) for some in (beside, rivals)]
                ranks[node] = (*close, len(lacks), len({one.server for one in there}), node)
            at[server] = min(nodes, key=ranks.__getitem__)
            free[at[server]] -= 1
        found.append({one.server: at[one.server] for one in replicas.values()})
        for server in at.keys() - found[-1].keys():
            free[at.pop(server)] += 1
    return found


def seen_from(placement: Placement, nodes: NodePlan) -> Placement:
    """The same schedule for the gateway of one node. Replicas of one queue are on one node; calls of a replica
    elsewhere are handed on one by one, and its own gateway batches them. Robots keep to their planned rates: how much
    faster they may be follows from queues that no single gateway sees."""
    pools: dict[str, set[str]] = {}
    for one in placement.replicas.values():
        if one.pool:
            pools.setdefault(one.pool, set()).add(nodes.server_on[one.server])

    def seen(one: Replica) -> Replica:
        node = nodes.server_on[one.server]
        pool = f"{one.pool} on {node}" if len(pools.get(one.pool, ())) > 1 else one.pool
        if node == nodes.here:
            return replace(one, pool=pool, permits=False)
        away = replace(one, pool=pool, node=node, at_once=AT_ONCE, batch=None, waits=False, reserved=0)
        # What it batches is decided there.
        return replace(
            away,
            permits=False,
            takes_turns=False,
            blocked_ms=0.0,
            always_asks=False,
            deadline_aware=False,
            link_ms=0.0,
        )

    replicas = {name: seen(one) for name, one in placement.replicas.items()}
    return replace(placement, replicas=replicas, adaptive=False)


def fingerprint(
    placement: Placement,
    nodes: NodePlan,
    tasks: Mapping[str, Task],
    peers: Mapping[str, str],
    max_message_mb: float,
) -> str:
    """What gateways of one schedule have in common, of whatever files: one that was started with another schedule,
    other nodes or other tasks has another one. `peers`: node -> where its gateway listens for the others.
    `max_message_mb`: of a robot, which no other gateway may find too large."""
    content = [
        SCHEMA_VERSION,
        max_message_mb,
        placement,
        nodes.server_on,
        nodes.home,
        nodes.gateways,
        peers,
        {name: task.components for name, task in tasks.items()},
    ]
    return sha256(json.dumps(plain(content), sort_keys=True).encode()).hexdigest()
