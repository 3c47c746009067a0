"""What ROSA asks of Ray itself: to connect, to say what its nodes are, to reserve a place on one of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rosa_server.cluster.on_ray.actor import describe, python_version
from rosa_server.cluster.on_ray.mapping import Node, RayError, check_versions
from rosa_server.serving.base.release import release

NAMESPACE = "rosa"
DESCRIBE_S = 60.0  # for a node's first Python process
RESERVE_S = 20.0
CPUS = 0.001  # so that Ray counts no cores: ROSA's schedule does


def connect(address: str) -> Any:
    """Ray's module, connected. Raises `RayError`."""
    import ray

    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            logging_level="ERROR",
            log_to_driver=False,
            configure_logging=False,
        )
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            raise RayError("other_version", " ".join(str(error).split())) from None
        raise RayError("no_ray", f"{address}: {error}") from None
    except Exception as error:
        raise RayError("no_ray", f"{address}: {' '.join(str(error).split())}") from None
    return ray


def alive(ray: Any) -> list[dict[str, Any]]:
    """Ray's list of its living nodes."""
    return [node for node in ray.nodes() if node["Alive"]]


def describe_into(
    known: dict[str, Node],
    ray: Any,
    entries: Sequence[Mapping[str, Any]],
    files: Collection[str],
    seconds: float,
) -> list[str]:
    """Ask these nodes of Ray's list what they are, and which of these files they lack; `known` gets them by id. Returns
    the addresses of those that did not answer in time.

    Raises `RayError` for one that cannot run ROSA, or another one than this; `known` has got the others.
    """
    asked: dict[Any, Mapping[str, Any]] = {}
    for node in entries:
        pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        told = ray.remote(describe).options(num_cpus=0, scheduling_strategy=pinned, max_retries=0)
        asked[told.remote(sorted(files))] = node
    ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=seconds) if asked else ([], [])
    wrong: list[RayError] = []
    for one in ready:
        try:
            made = _node_from(ray, asked[one], one)
            check_versions([made], python_version(), ray.__version__, release())
        except RayError as error:
            wrong.append(error)
            continue
        known[made.id] = made
    if wrong:
        raise wrong[0]
    return [asked[one]["NodeManagerAddress"] for one in late]


def _node_from(ray: Any, node: Mapping[str, Any], answer: Any) -> Node:
    """What a node of Ray's list has said of itself. Raises `RayError`."""
    address = node["NodeManagerAddress"]
    try:
        data = ray.get(answer)
    except Exception as error:
        words = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise RayError("other_version", f"node {address} cannot run ROSA: {words}") from None
    about = {"id": node["NodeID"], "address": address, "gpus": int(node["Resources"].get("GPU", 0))}
    return Node.from_data({**about, "labels": node.get("Labels") or {}, **data})


def reserve(ray: Any, name: str, node: str, gpus: int) -> Any:
    """A detached placement group of one bundle, pinned to a node."""
    bundle = {"GPU": gpus, "CPU": CPUS} if gpus else {"CPU": CPUS}
    return ray.util.placement_group(
        [bundle], name=name, lifetime="detached", bundle_label_selector=[{"ray.io/node-id": node}]
    )


def wait_for(what: str, group: Any, seconds: float) -> None:
    """Raises `RayError` where others have what it needs."""
    if not group.wait(seconds):
        words = f"{what}: others use what it needs; it was not free within {seconds:g} s"
        raise RayError("not_reserved", words)


def begin(ray: Any, actor: type[Any], name: str, group: Any, gpus: int, *told: Any) -> Any:
    """Start a detached actor in a reservation."""
    inside = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group, 0)
    made = ray.remote(actor).options(
        name=name,
        lifetime="detached",
        num_cpus=CPUS,
        num_gpus=gpus,
        max_restarts=0,
        scheduling_strategy=inside,
    )
    return made.remote(*told)
