"""The single writer of several gateways on Ray: a named detached actor that knows the schedule and the nodes they were
started with, and starts the gateway of a node again when the node is back.

Ray starts it elsewhere when its own node is lost, with what it was made with. It decides nothing that a robot waits
for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Any

from rosa_server.cluster.on_ray.dealing import GatewayPlace, place_from
from rosa_server.cluster.on_ray.gateway_actor import GatewayActor
from rosa_server.cluster.on_ray.mapping import Node, RayError
from rosa_server.cluster.on_ray.reserving import (
    DESCRIBE_S,
    NAMESPACE,
    RESERVE_S,
    alive,
    begin,
    describe_into,
    reserve,
    wait_for,
)
from rosa_server.serving.base import log

NAME = "rosa/record"
HEAL_EVERY_S = 2.0
LOOK_S = 5.0  # for an actor's answer
AGAIN_S = 5.0  # between two tries for one node
READY_S = 180.0
GRACE_S = 12.0  # of a gateway that is to end


class GatewayRecord:
    """Ray gives it its calls in one thread, `stop` and `about` while `begin` waits in another (`max_concurrency`)."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        """`told`: `places`, `files` (name -> content) and `folder`, as `GatewayActor` has them."""
        import ray

        log.to_stderr()  # Ray keeps it in its own logs
        self._ray, self._told = ray, told
        self._places = [place_from(one) for one in told["places"]]
        self._stop = threading.Event()
        self._lock = threading.Lock()  # who starts and ends gateways
        self._again_s = dict.fromkeys((one.name for one in self._places), 0.0)
        self._healing = threading.Thread(target=self._heal, daemon=True)
        if ray.get_runtime_context().was_current_actor_reconstructed:
            self._healing.start()

    def about(self) -> dict[str, Any]:
        """Node -> how its gateway is; empty where nobody answers."""
        return {one.name: self._look(one) or {} for one in self._places}

    def begin(self) -> dict[str, Any]:
        """Start all gateways, or none. Returns `cause` and `words` where that is refused, or `about`."""
        try:
            with self._lock:
                self._begin_all()
            self._wait_ready()
        except RayError as error:
            self.stop()
            return {"cause": error.cause, "words": str(error)}
        self._healing.start()
        return {"about": self.about()}

    def stop(self) -> None:
        """End all gateways, and give back what was reserved."""
        self._stop.set()
        with self._lock:
            actors = [actor for one in self._places if (actor := self._actor(one)) is not None]
            asked = [actor.end.remote(GRACE_S) for actor in actors]
            with contextlib.suppress(Exception):
                self._ray.wait(asked, num_returns=len(asked), timeout=GRACE_S + LOOK_S)
            for one in self._places:
                self._forget(one)

    # -- one gateway ---------------------------------------------------------------------------------------------------

    def _begin_all(self) -> None:
        groups: dict[str, Any] = {}
        try:
            for one in self._places:
                groups[one.name] = reserve(self._ray, _name(one), self._node(one).id, one.gpus)
            for one in self._places:
                wait_for(one.name, groups[one.name], RESERVE_S)
        except RayError:
            for group in groups.values():
                self._ray.util.remove_placement_group(group)
            raise
        for one in self._places:
            self._start(one, groups[one.name])

    def _node(self, one: GatewayPlace) -> Node:
        """The living node of Ray at its address. Raises `RayError`."""
        entries = [node for node in alive(self._ray) if node["NodeManagerAddress"] == one.address]
        known: dict[str, Node] = {}
        describe_into(known, self._ray, entries, one.needs, DESCRIBE_S)
        if not known:
            words = f"node {one.name}: no node of this Ray cluster answers at {one.address}"
            raise RayError("node_unreachable", words)
        found = next(iter(known.values()))
        if found.missing:
            words = f"node {one.name} ({one.address}) lacks {', '.join(sorted(found.missing))}"
            raise RayError("files_missing", words)
        return found

    def _start(self, one: GatewayPlace, group: Any) -> None:
        told = (list(one.words), dict(self._told["files"]), self._told["folder"])
        begin(self._ray, GatewayActor, _name(one), group, one.gpus, *told)

    def _actor(self, one: GatewayPlace) -> Any:
        try:
            return self._ray.get_actor(_name(one), NAMESPACE)
        except ValueError:
            return None

    def _look(self, one: GatewayPlace) -> dict[str, Any] | None:
        actor = self._actor(one)
        if actor is None:
            return None
        try:
            return dict(self._ray.get(actor.look.remote(), timeout=LOOK_S))
        except self._ray.exceptions.GetTimeoutError:
            return {}
        except Exception:  # it is gone
            return None

    def _forget(self, one: GatewayPlace) -> None:
        """Nothing of it is left, as far as Ray can tell."""
        with contextlib.suppress(Exception):
            self._ray.kill(self._actor(one), no_restart=True)
        with contextlib.suppress(Exception):
            self._ray.util.remove_placement_group(self._ray.util.get_placement_group(_name(one)))

    # -- all of them ---------------------------------------------------------------------------------------------------

    def _wait_ready(self) -> None:
        """Raises `RayError` where one of them cannot be served, or is not ready in time."""
        end_s = time.monotonic() + READY_S
        waiting = list(self._places)
        while waiting and not self._stop.is_set():
            for one in list(waiting):
                seen = self._look(one) or {}
                if seen.get("refused"):
                    raise RayError("refused", f"node {one.name}: {seen['refused']} (log: {seen['log']})")
                if seen.get("ready"):
                    waiting.remove(one)
            if waiting and time.monotonic() > end_s:
                names = ", ".join(one.name for one in waiting)
                raise RayError("not_ready", f"the gateways of {names} were not ready within {READY_S:g} s")
            time.sleep(0.1)

    def _heal(self) -> None:
        """A gateway whose node was lost is started again on the node of the same address, when that is back."""
        while not self._stop.wait(HEAL_EVERY_S):
            for one in self._places:
                if time.monotonic() < self._again_s[one.name]:
                    continue
                try:
                    self._heal_one(one)
                except Exception as error:  # Ray has many without its head: another time
                    log.warning("gateway_not_started", node=one.name, reason=str(error))

    def _heal_one(self, one: GatewayPlace) -> None:
        if self._look(one) is not None:
            return
        self._again_s[one.name] = time.monotonic() + AGAIN_S
        with self._lock:
            if not self._stop.is_set():
                self._start_again(one)

    def _start_again(self, one: GatewayPlace) -> None:
        node = self._node(one)
        self._forget(one)
        group = reserve(self._ray, _name(one), node.id, one.gpus)
        try:
            wait_for(one.name, group, RESERVE_S)
        except RayError:
            self._ray.util.remove_placement_group(group)
            raise
        self._start(one, group)


def _name(one: GatewayPlace) -> str:
    return f"rosa/gateway/{one.name}"
