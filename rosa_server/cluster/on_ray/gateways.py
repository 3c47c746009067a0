"""Several gateways of one schedule on the nodes of a Ray cluster: to bring them up, and down. Not in a server: whoever
types the command is connected to Ray for as long as it runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rosa_contract.config.factory import Factory
from rosa_server.cluster.local import worker_specs
from rosa_server.cluster.on_ray import check_reachable, check_token, parts_of
from rosa_server.cluster.on_ray.dealing import content, dealt, found, places
from rosa_server.cluster.on_ray.mapping import Node, RayError, check_closed
from rosa_server.cluster.on_ray.record import GRACE_S, NAME, READY_S, GatewayRecord
from rosa_server.cluster.on_ray.reserving import (
    DESCRIBE_S,
    NAMESPACE,
    RESERVE_S,
    alive,
    connect,
    describe_into,
)
from rosa_server.plan.nodes_file import NodesFile
from rosa_server.plan.placement import Placement

BEGINS_S = READY_S + DESCRIBE_S + 3 * RESERVE_S
STOPS_S = GRACE_S + RESERVE_S + DESCRIBE_S
SCHEDULE, NODES = "schedule.json", "nodes.yaml"


def bring_up(
    address: str,
    factory: Factory,
    placement: Placement,
    nodes: NodesFile,
    source: str,
    schedule: Path,
    common: Sequence[str],
    words: Sequence[str],
) -> dict[str, Any]:
    """Start a gateway on every node, or none. `source`: the nodes file. `common`: files that every node has to have.
    `words`: further ones of `rosa serve`. Returns node -> how its gateway is.

    Raises `RayError`, `ConfigError`.
    """
    with _connected(address) as ray:
        if _record(ray) is not None:
            raise RayError("already_up", f"gateways run in the cluster at {address}; `rosa down` ends them")
        parts = parts_of(factory, placement, worker_specs(factory, placement, local=False))
        known: dict[str, Node] = {}
        files = {*common, *(file for part in parts for file in part.files)}
        late = describe_into(known, ray, alive(ray), files, DESCRIBE_S)
        if late:
            raise RayError("node_unreachable", f"no answer from {', '.join(late)} within {DESCRIBE_S:g} s")
        check_closed(list(known.values()), os.environ.get("RAY_AUTH_MODE") == "token")
        at = found(nodes, list(known.values()))
        nodes = dealt(nodes, source, parts, at)
        serve = ("serve", *words, "--schedule", f"{{folder}}/{SCHEDULE}", "--nodes", f"{{folder}}/{NODES}")
        told = {
            "places": [asdict(one) for one in places(nodes, parts, at, common, serve)],
            "files": {SCHEDULE: schedule.read_text(), NODES: json.dumps(content(nodes))},
            "folder": nodes.state,
        }
        try:
            made = ray.remote(GatewayRecord).options(
                name=NAME, lifetime="detached", num_cpus=0, max_restarts=-1, max_concurrency=4
            )
            record = made.remote(told)
        except ValueError:  # another one was faster
            raise RayError("already_up", f"gateways run in the cluster at {address}") from None
        try:
            answer = ray.get(record.begin.remote(), timeout=BEGINS_S)
        except ray.exceptions.RayError as error:
            answer = {"cause": "no_ray", "words": f"{address}: {' '.join(str(error).split())[:500]}"}
            with contextlib.suppress(ray.exceptions.RayError):  # some may have begun
                ray.get(record.stop.remote(), timeout=STOPS_S)
        if "about" in answer:
            return dict(answer["about"])
        with contextlib.suppress(Exception):
            ray.kill(record, no_restart=True)
        raise RayError(answer["cause"], answer["words"])


def bring_down(address: str) -> list[str]:
    """End all gateways. Returns their nodes. Raises `RayError`."""
    with _connected(address) as ray:
        record = _record(ray)
        if record is None:
            raise RayError("not_up", f"no gateways run in the cluster at {address}")
        try:
            about = ray.get(record.about.remote(), timeout=STOPS_S)
            ray.get(record.stop.remote(), timeout=STOPS_S)
        except ray.exceptions.RayError as error:
            words = f"{address}: they did not end: {' '.join(str(error).split())[:500]}"
            raise RayError("not_ready", words) from None
        ray.kill(record, no_restart=True)
        return list(about)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    if importlib.util.find_spec("ray") is None:
        raise RayError("not_installed", "gateways on Ray need it: pip install 'rosa-serving[ray]'")
    check_token(address)
    check_reachable(address)
    ray = connect(address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _record(ray: Any) -> Any:
    try:
        return ray.get_actor(NAME, NAMESPACE)
    except ValueError:
        return None
