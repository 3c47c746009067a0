"""Workers on the nodes of a Ray cluster (`server_cluster: {cluster: ray}`). docs/cluster.md says how to use it."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Collection

from rosa_contract.config.factory import Factory
from rosa_contract.endpoint import is_loopback
from rosa_server.cluster.local import worker_specs
from rosa_server.cluster.on_ray.cluster import Further, RayCluster
from rosa_server.cluster.on_ray.mapping import Part, RayError
from rosa_server.plan.placement import Placement, replica_name
from rosa_server.serving.base.worker_spec import WorkerSpec

REACH_S = 5.0
FILE_OPTIONS = ("weights", "profile")  # options of a model that are paths


def make(factory: Factory, placement: Placement) -> RayCluster:
    """Reserve the nodes of a schedule. Raises `RayError` with what to change; then nothing was started."""
    address = factory.server_cluster.address
    if importlib.util.find_spec("ray") is None:
        raise RayError(
            "not_installed", "cluster: ray needs Ray: pip install ray, the same version on every machine"
        )
    check_token(address)
    check_reachable(address)

    further = further_of(factory)
    workers, parts = further(placement, placement.replicas.keys())
    return RayCluster(workers, parts, address, factory.server_cluster.workers_port, further=further)


def further_of(factory: Factory) -> Further:
    """Describes the workers of replicas, and all parts of their placement."""

    def further(
        placement: Placement, replicas: Collection[str]
    ) -> tuple[list[tuple[WorkerSpec, str]], list[Part]]:
        specs = worker_specs(factory, placement, local=False)
        wanted = [spec for spec in specs if replica_name(spec.worker_id) in replicas]
        return [(spec, part_of(spec, placement)) for spec in wanted], parts_of(factory, placement, specs)

    return further


def check_token(address: str) -> None:
    """Raise `RayError` for a cluster that other machines reach and that runs anybody's code."""
    if not is_loopback(f"tcp://{address}") and os.environ.get("RAY_AUTH_MODE") != "token":
        raise RayError(
            "no_token",
            f"server_cluster.address: {address} can be reached from other machines, and who reaches a Ray cluster runs"
            " code in it; start Ray on every node, and this server, with RAY_AUTH_MODE=token and one RAY_AUTH_TOKEN",
        )


def check_reachable(address: str) -> None:
    """Raise `RayError` where nothing listens: Ray itself would try again for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except (OSError, ValueError, OverflowError) as error:
        words = f"server_cluster.address: no Ray answers at {address} ({error}); start its head with `ray start --head`"
        raise RayError("no_ray", words) from None


def part_of(spec: WorkerSpec, placement: Placement) -> str:
    """What shares a GPU with this worker: its server of the schedule, or, without a schedule, nothing."""
    replica = placement.replicas[replica_name(spec.worker_id)]
    return replica.server if placement.routes is not None else spec.worker_id


def parts_of(factory: Factory, placement: Placement, specs: list[WorkerSpec]) -> list[Part]:
    """The parts of a schedule, in its order."""
    gpus = 0 if factory.server_cluster.gpu_type == "cpu" else 1
    files: dict[str, set[str]] = {}
    for spec in specs:
        named = [spec.options.get(option) for option in FILE_OPTIONS]
        found = {one for one in named if isinstance(one, str) and one} | set(spec.sha256)
        files.setdefault(part_of(spec, placement), set()).update(found)
    server = {replica.id: replica.server for replica in placement.replicas.values()}
    protects: dict[str, set[str]] = {}
    for failing, standbys in placement.standbys.items():
        for standby in standbys:
            protects.setdefault(server[standby], set()).add(server[failing])
    return [
        Part(name, gpus, tuple(sorted(needs)), frozenset(protects.get(name, ())))
        for name, needs in files.items()
    ]
