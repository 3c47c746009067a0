"""Which node of a Ray cluster each part of a schedule runs on. A part is what has to be on one GPU: a server of the
schedule with all its workers, or, without a schedule, one worker.

A part runs where its files are. Among these nodes the least loaded one is preferred, and none that holds what the part
stands in for: a standby that fails with its server helps nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rosa_contract.endpoint import is_loopback_host
from rosa_contract.errors import CausedError


class RayError(CausedError):
    """This Ray cluster cannot run the schedule, or cannot be used as it is."""

    CAUSES: ClassVar = {
        "not_installed": "Ray is not installed beside ROSA",
        "no_ray": "no Ray answers at the address",
        "no_token": "other machines could run code in the cluster without a token",
        "other_version": "a node has another Python, Ray or ROSA",
        "node_unreachable": "a node does not answer",
        "too_few_gpus": "the schedule needs more GPUs than the nodes have",
        "weights_missing": "no node that has room has the files of a model",
        "not_reserved": "others use what the schedule needs",
        "files_missing": "a node lacks a file that its gateway needs",
        "refused": "a gateway refuses what it was started with; its words say why",
        "not_ready": "a gateway, or one of its workers, was not ready in time",
        "already_up": "gateways run in this Ray cluster already",
        "not_up": "no gateways run in this Ray cluster",
    }


@dataclass(frozen=True)
class Part:
    """What runs on one GPU, or on none. `files`: what its models read. `protects`: parts that it stands in for."""

    name: str
    gpus: int = 0
    files: tuple[str, ...] = ()
    protects: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Node:
    """A living node, as it describes itself."""

    id: str
    address: str
    gpus: int = 0
    missing: frozenset[str] = frozenset()  # files that it lacks
    python: str = ""  # major.minor
    ray: str = ""
    release: str = ""  # of ROSA's files
    labels: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Node:
        return Node(**{**data, "missing": frozenset(data["missing"])})


def check_closed(nodes: Sequence[Node], token: bool) -> None:
    """Raise `RayError` where a node can be reached from other machines and anybody may run code on it.

    `token`: the cluster wants one. The address that a person has typed says nothing: a head listens on all of its own.
    """
    open_ones = [node.address for node in nodes if not is_loopback_host(node.address)]
    if open_ones and not token:
        raise RayError(
            "no_token",
            f"the nodes {', '.join(open_ones)} can be reached from other machines, and who reaches a Ray cluster runs"
            " code in it; start Ray on every node, and this server, with RAY_AUTH_MODE=token and one RAY_AUTH_TOKEN",
        )


def check_versions(nodes: Sequence[Node], python: str, ray: str, release: str) -> None:
    """Raise `RayError` for a node that is not like this machine."""
    for node in nodes:
        for what, theirs, ours in (
            ("Python", node.python, python),
            ("Ray", node.ray, ray),
            ("ROSA's release", node.release, release),
        ):
            if theirs != ours:
                words = (
                    f"node {node.address} has {what} {theirs}, this machine {ours}; install the same on all"
                )
                raise RayError("other_version", words)


def place(
    parts: Sequence[Part],
    nodes: Sequence[Node],
    settled: Mapping[str, str] | None = None,
    avoid: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Part -> id of its node, for all of them. `settled`: parts that have a node already, part -> node id. `avoid`:
    nodes that are not used.

    Raises `RayError` where not all of them find one.
    """
    settled = dict(settled or {})
    gpus = {part.name: part.gpus for part in parts}
    usable = [node for node in nodes if node.id not in avoid]
    todo = [part for part in parts if part.name not in settled]
    ids = {node.id for node in usable}
    _check_room(todo, usable, sum(gpus.get(name, 0) for name, at in settled.items() if at in ids))
    found = dict(settled)
    # A part that few nodes can run chooses first; standbys choose last, when it is known what they must keep away from.
    order = sorted(todo, key=lambda part: (bool(part.protects), _choices(part, usable), part.name))
    for part in order:
        if not _settle(part, {one.name: one for one in parts}, usable, found, set(), settled.keys()):
            lacking = [
                f"{node.address} lacks {', '.join(sorted(node.missing & set(part.files)))}"
                for node in usable
                if node.missing & set(part.files)
            ]
            if lacking:
                words = f"{part.name} finds no node with its files and a free GPU: {'; '.join(lacking)}"
                raise RayError("weights_missing", words)
            raise RayError("too_few_gpus", f"{part.name} finds no node with a free GPU")
    return found


def _check_room(todo: Sequence[Part], nodes: Sequence[Node], used: int) -> None:
    wanted, there = sum(part.gpus for part in todo), sum(node.gpus for node in nodes) - used
    if wanted > there or not nodes:
        raise RayError(
            "too_few_gpus",
            f"the schedule needs {wanted} GPUs and the {len(nodes)} nodes have {there} free; plan for fewer with"
            " server_cluster.num_servers, or add nodes",
        )


def _choices(part: Part, nodes: Sequence[Node]) -> int:
    return sum(1 for node in nodes if not node.missing & set(part.files) and node.gpus >= part.gpus)


def _settle(
    part: Part,
    parts: Mapping[str, Part],
    nodes: Sequence[Node],
    found: dict[str, str],
    seen: set[str],
    stay: Collection[str],
) -> bool:
    """Give a part a node; where all are full, another part makes room if it can go elsewhere (an augmenting path).
    `stay`: parts that run."""
    held: dict[str, list[str]] = {}
    for name, node_id in found.items():
        held.setdefault(node_id, []).append(name)

    def load(node: Node) -> tuple[bool, float, str]:
        here = held.get(node.id, [])
        together = any(
            name in part.protects or part.name in parts[name].protects for name in here if name in parts
        )
        return together, len(here) / max(1, node.gpus), node.address

    for node in sorted(nodes, key=load):
        if node.missing & set(part.files) or node.id in seen:
            continue
        here = [parts[name] for name in held.get(node.id, []) if name in parts]
        if sum(one.gpus for one in here) + part.gpus <= node.gpus:
            found[part.name] = node.id
            return True
    for node in nodes:
        if node.missing & set(part.files) or node.id in seen or not node.gpus:
            continue
        seen.add(node.id)
        for name in held.get(node.id, []):
            other = parts.get(name)
            if other is None or name in stay or other.gpus < part.gpus:
                continue
            moved = dict(found)
            del moved[name]
            moved[part.name] = node.id
            if _settle(other, parts, nodes, moved, seen, stay):
                found.clear()
                found.update(moved)
                return True
    return False
