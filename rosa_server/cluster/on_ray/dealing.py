"""Which node of a nodes file each server of the schedule is on, and what each gateway is started with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rosa_server.cluster.on_ray.mapping import Node, Part, RayError, place
from rosa_server.plan.nodes_file import NodesFile, check_servers


@dataclass(frozen=True)
class GatewayPlace:
    """One node with its gateway."""

    name: str
    address: str  # by which Ray knows the machine
    gpus: int
    needs: tuple[str, ...]  # files that have to be there
    words: tuple[str, ...]  # of the command `rosa`; {folder} is where the files are that travel with it


def place_from(data: Mapping[str, Any]) -> GatewayPlace:
    return GatewayPlace(**{**data, "needs": tuple(data["needs"]), "words": tuple(data["words"])})


def host_of(endpoint: str) -> str:
    """The address in tcp://ADDRESS:PORT."""
    return endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")


def found(nodes: NodesFile, known: Sequence[Node]) -> dict[str, Node]:
    """Name of a node -> what Ray has at its address. Raises `RayError` where that is nothing."""
    by_address = {node.address: node for node in known}
    lacking = [
        f"{name} ({host_of(one.gateways)})"
        for name, one in nodes.nodes.items()
        if host_of(one.gateways) not in by_address
    ]
    if lacking:
        there = ", ".join(sorted(by_address)) or "none"
        words = f"no node of this Ray cluster at the address of {', '.join(lacking)}; its nodes are {there}"
        raise RayError("node_unreachable", words)
    return {name: by_address[host_of(one.gateways)] for name, one in nodes.nodes.items()}


def dealt(nodes: NodesFile, source: str, parts: Sequence[Part], at: Mapping[str, Node]) -> NodesFile:
    """The nodes file with the servers of each node: as it says, or, where it names none, as there is room and as the
    files are. `at`: see `found`.

    Raises `RayError` where a node has too few GPUs, or lacks files; `ConfigError` for servers that do not fit.
    """
    if not any(one.servers for one in nodes.nodes.values()):
        where = place(parts, list(at.values()))
        named = {node.id: name for name, node in at.items()}
        servers = {name: tuple(p.name for p in parts if named[where[p.name]] == name) for name in nodes.nodes}
        return replace(
            nodes, nodes={name: replace(one, servers=servers[name]) for name, one in nodes.nodes.items()}
        )
    check_servers(nodes, (part.name for part in parts), source)
    for name, one in nodes.nodes.items():
        own = [part for part in parts if part.name in one.servers]
        if own:
            place(own, [at[name]])
    return nodes


def places(
    nodes: NodesFile,
    parts: Sequence[Part],
    at: Mapping[str, Node],
    common: Sequence[str],
    words: Sequence[str],
) -> list[GatewayPlace]:
    """`common`: files that every node has to have. `words`: of `rosa serve`, but for the node's name."""
    made = []
    for name, one in nodes.nodes.items():
        own = [part for part in parts if part.name in one.servers]
        files = sorted({*common, *(file for part in own for file in part.files)})
        gpus = sum(part.gpus for part in own)
        made.append(GatewayPlace(name, at[name].address, gpus, tuple(files), (*words, "--node", name)))
    return made


def content(nodes: NodesFile) -> dict[str, Any]:
    """As a nodes file has it."""
    said = {
        name: {"robots": one.robots, "gateways": one.gateways, "servers": list(one.servers)}
        for name, one in nodes.nodes.items()
    }
    return {"keys": nodes.keys, "state": nodes.state, "nodes": said}
