"""A schedule on several nodes, each with a gateway: which server is on which, and what one node sees of the others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from hashlib import sha256
from typing import Any

from rosa_contract.config.tasks import Task
from rosa_contract.wire.messages import SCHEMA_VERSION
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
            away, permits=False, takes_turns=False, blocked_ms=0.0, deadline_aware=False, link_ms=0.0
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
    return sha256(json.dumps(_plain(content), sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """As JSON has it. Raises `TypeError` for what looks another way in another process."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"no fingerprint of {type(value).__name__}")
