"""The process that talks to Ray for a server: python -m rosa_server.cluster.on_ray.driver

Ray ends a driver whose head or local node is gone, so the gateway is none. JSON lines come in and go out; the first one
in says what to place and where Ray is. When its input ends, however the server ended, it ends what it has started.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from rosa_server.cluster.on_ray.actor import WorkerActor
from rosa_server.cluster.on_ray.mapping import Node, Part, RayError, check_closed, place
from rosa_server.cluster.on_ray.reserving import (
    DESCRIBE_S,
    RESERVE_S,
    alive,
    begin,
    connect,
    describe_into,
    reserve,
    wait_for,
)

STEP_S = 0.05
LOOK_EVERY_S = 0.25
# An actor that has not answered for this long counts as lost when one of its workers has to be started again.
SILENT_S = 5.0
MOVE_S = 5.0  # the same for one part while the others serve
END_S = 10.0


@dataclass
class Placed:
    """One part with its reservation and its actor."""

    part: Part
    node: str
    name: str  # of the reservation and of the actor
    group: Any
    actor: Any
    answered_s: float
    looking: Any = None  # the answer under way
    has: frozenset[str] = frozenset()  # workers that it has to name in that
    starting: dict[Any, str] = field(default_factory=dict)  # answers under way -> worker id
    workers: set[str] = field(default_factory=set)  # that it was told to start and that have not ended


class Driver:
    """One connection to Ray. Every method may raise what Ray raises."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._server = order["server"]
        self._parts = parts_from(order["parts"])
        self._placed: dict[str, Placed] = {}
        self._known: dict[str, Node] = {}
        ray = self._ray = connect(order["address"])
        self.address = ray.util.get_node_ip_address()

    def place_all(self) -> None:
        """Reserve what every part needs, or nothing."""
        late = self._describe(alive(self._ray), DESCRIBE_S)
        if late:
            raise RayError("node_unreachable", f"no answer from {', '.join(late)} within {DESCRIBE_S:g} s")
        nodes = list(self._known.values())
        check_closed(nodes, os.environ.get("RAY_AUTH_MODE") == "token")
        where = place(self._parts, nodes)
        groups: dict[str, Any] = {}
        try:
            for part in self._parts:
                groups[part.name] = self._reserve(part, where[part.name])
            for part in self._parts:
                wait_for(part.name, groups[part.name], RESERVE_S)
        except RayError:
            for group in groups.values():
                self._ray.util.remove_placement_group(group)
            raise
        for part in self._parts:
            self._begin(part, where[part.name], groups[part.name])

    def adopt(self, known: dict[str, dict[str, Any]]) -> None:
        """Take over what an earlier driver of the same server has placed; what is gone is placed when it is needed."""
        for part in self._parts:
            at = known[part.name]
            actor = group = None
            with contextlib.suppress(ValueError):
                group = self._ray.util.get_placement_group(at["name"])
                actor = self._ray.get_actor(at["name"])
            self._placed[part.name] = Placed(part, at["node"], at["name"], group, actor, time.monotonic())
            self._placed[part.name].workers.update(at["workers"])

    def add(self, parts: list[Part]) -> None:
        """Reserve what further parts need, or nothing. Raises `RayError`."""
        began_s, before = time.monotonic(), list(self._parts)
        self._parts += parts
        groups: dict[str, Any] = {}
        try:
            living = alive(self._ray)
            with contextlib.suppress(RayError):  # a node that cannot run ROSA is not used
                self._describe(living, RESERVE_S)
            nodes = [self._known[node["NodeID"]] for node in living if node["NodeID"] in self._known]
            where = place(self._parts, nodes, {name: one.node for name, one in self._placed.items()})
            for part in parts:
                groups[part.name] = self._reserve(part, where[part.name])
            for part in parts:
                wait_for(part.name, groups[part.name], RESERVE_S)
        except RayError:
            self._parts = before
            for group in groups.values():
                self._ray.util.remove_placement_group(group)
            raise
        finally:
            for placed in self._placed.values():  # nobody was asked meanwhile
                placed.answered_s += time.monotonic() - began_s
        for part in parts:
            self._begin(part, where[part.name], groups[part.name])

    def release(self, name: str) -> None:
        """End what runs for a part, and give back what was reserved for it."""
        self._parts = [part for part in self._parts if part.name != name]
        placed = self._placed.pop(name, None)
        if placed is not None:
            self._drop(placed)

    def where(self) -> dict[str, dict[str, Any]]:
        """Part -> the name of its actor and its node."""
        addresses = {node.id: node.address for node in self._known.values()}
        return {
            name: {"name": one.name, "node": one.node, "address": addresses.get(one.node, "")}
            for name, one in self._placed.items()
        }

    def start(self, part: str, spec: dict[str, Any]) -> bool:
        """Start a worker; where its actor is lost, on another node. Whether it is another actor than before.

        Raises `RayError` where no node has room.
        """
        if part not in self._placed:
            raise RayError("not_reserved", f"{part} was given back")
        placed = self._placed[part]
        moves = placed.actor is None or time.monotonic() - placed.answered_s > SILENT_S
        if moves:
            placed = self._move(placed)
        placed.workers.add(spec["worker_id"])
        placed.starting[placed.actor.start.remote(spec)] = spec["worker_id"]
        return moves

    def kill(self, part: str, worker_id: str) -> None:
        placed = self._placed.get(part)
        if placed is None:
            return
        placed.workers.discard(worker_id)  # its end is no news
        if placed.actor is not None:
            placed.actor.kill.remote(worker_id)

    def step(self, now_s: float) -> list[dict[str, Any]]:
        """Ask every actor how its workers are; returns what is news."""
        news: list[dict[str, Any]] = []
        for placed in self._placed.values():
            for answer in list(placed.starting):
                if (why := self._answer(answer)) is not None:
                    worker_id = placed.starting.pop(answer)
                    if why:
                        placed.workers.discard(worker_id)
                        news.append({"event": "ended", "worker_id": worker_id, "why": str(why)})
            if placed.actor is None:
                news += _ended(placed, placed.workers, "its actor is gone")
                continue
            if placed.looking is None:
                if now_s - placed.answered_s >= LOOK_EVERY_S:
                    placed.has = frozenset(placed.workers.difference(placed.starting.values()))
                    placed.looking = placed.actor.look.remote()
                continue
            seen = self._answer(placed.looking)
            if seen is None:
                continue
            placed.looking = None
            if isinstance(seen, str):  # the actor is gone, and with it its workers
                news += _ended(placed, placed.workers, seen)
                placed.actor = None
                continue
            placed.answered_s = now_s
            for worker_id, (status, text) in seen.items():
                if text:
                    news.append({"event": "output", "worker_id": worker_id, "text": text})
                if status is not None and worker_id in placed.workers:
                    placed.workers.discard(worker_id)
                    news.append({"event": "ended", "worker_id": worker_id, "status": status})
            # It was told to a driver before, or to an actor before, and nobody has heard what became of it.
            unknown = (placed.has & placed.workers) - seen.keys()
            news += _ended(placed, unknown, "its actor does not have it")
        return news

    def end(self, grace_s: float) -> None:
        """End every worker, every actor and every reservation."""
        ray = self._ray
        asked = [one.actor.end.remote(grace_s) for one in self._placed.values() if one.actor is not None]
        with contextlib.suppress(Exception):
            ray.wait(asked, num_returns=len(asked), timeout=grace_s + END_S)
        for placed in self._placed.values():
            self._drop(placed)
        ray.shutdown()

    # -- placing ---------------------------------------------------------------------------------------------------

    def _describe(self, entries: list[dict[str, Any]], seconds: float) -> list[str]:
        """Ask these nodes of Ray's list what they are. Returns the addresses of those that did not answer in time.

        Raises `RayError` for one that cannot run ROSA, or another one than this.
        """
        files = {name for part in self._parts for name in part.files}
        return describe_into(self._known, self._ray, entries, files, seconds)

    def _reserve(self, part: Part, node: str) -> Any:
        # Another driver of this server may have reserved for this part before, and Ray forgets a name late.
        return reserve(self._ray, f"rosa/{self._server}/{part.name}/{token_hex(4)}", node, part.gpus)

    def _begin(self, part: Part, node: str, group: Any) -> None:
        name = self._ray.util.placement_group_table(group)["name"]
        actor = begin(self._ray, WorkerActor, name, group, part.gpus)
        self._placed[part.name] = Placed(part, node, name, group, actor, time.monotonic())

    def _move(self, placed: Placed) -> Placed:
        """Put a part on another node, or again on its own where that is the only one. Raises `RayError`."""
        living = alive(self._ray)
        with contextlib.suppress(RayError):  # a node that cannot run ROSA is not used
            self._describe([node for node in living if node["NodeID"] not in self._known], MOVE_S)
        nodes = [self._known[node["NodeID"]] for node in living if node["NodeID"] in self._known]
        settled = {name: one.node for name, one in self._placed.items() if one is not placed}
        try:
            where = place(self._parts, nodes, settled, frozenset({placed.node}))
        except RayError:
            where = place(self._parts, nodes, settled)
        part, node = placed.part, where[placed.part.name]
        self._drop(placed)
        placed.actor = None
        group = self._reserve(part, node)
        try:
            wait_for(part.name, group, MOVE_S)
        except RayError:
            self._ray.util.remove_placement_group(group)
            raise
        self._begin(part, node, group)
        self._placed[part.name].workers |= placed.workers
        return self._placed[part.name]

    def _drop(self, placed: Placed) -> None:
        with contextlib.suppress(Exception):  # it may be gone
            self._ray.kill(placed.actor, no_restart=True)
        with contextlib.suppress(Exception):
            self._ray.util.remove_placement_group(placed.group)

    def _answer(self, reference: Any) -> Any:
        """An answer that has come, in words why there will be none, or None while it is under way."""
        ready, _ = self._ray.wait([reference], timeout=0)
        if not ready:
            return None
        try:
            return self._ray.get(reference)
        except Exception as error:
            return f"its actor is gone: {type(error).__name__}"


def _ended(placed: Placed, workers: Collection[str], why: str) -> list[dict[str, Any]]:
    """The news that these have ended; nobody knows with which status."""
    news = [{"event": "ended", "worker_id": one, "why": why} for one in sorted(workers)]
    placed.workers = placed.workers.difference(workers)
    return news


def parts_from(data: list[dict[str, Any]]) -> list[Part]:
    return [Part(one["name"], one["gpus"], tuple(one["files"]), frozenset(one["protects"])) for one in data]


class Lines:
    """Lines of standard input, without waiting for them."""

    def __init__(self) -> None:
        self._rest, self.ended = b"", False

    def read(self, seconds: float) -> list[dict[str, Any]]:
        ready, _, _ = select.select([0], [], [], seconds)
        if not ready:
            return []
        data = os.read(0, 1 << 16)
        self.ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def main() -> int:
    # What libraries print must not be taken for an answer.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(**event: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # then the input ends too
            out.write(json.dumps(event) + "\n")

    lines = Lines()
    orders: list[dict[str, Any]] = []
    while not orders and not lines.ended:
        orders = lines.read(1.0)
    if not orders:
        return 0
    order = orders.pop(0)
    driver = None
    try:
        driver = Driver(order)
        driver.adopt(order["adopt"]) if order["adopt"] else driver.place_all()
        say(event="placed", address=driver.address, where=driver.where())
    except RayError as error:
        say(event="refused", cause=error.cause, words=str(error))
        if driver is not None:
            driver.end(0.0)
        return 0
    grace_s = 0.0
    while not lines.ended:
        for told in orders:
            if told["do"] == "stop":
                grace_s, lines.ended = told["grace_s"], True
            elif told["do"] == "kill":
                driver.kill(told["part"], told["worker_id"])
            elif told["do"] == "release":
                driver.release(told["part"])
            elif told["do"] == "place":
                parts = parts_from(told["parts"])
                try:
                    driver.add(parts)
                    say(event="added", where=driver.where())
                except RayError as error:
                    names = [part.name for part in parts]
                    say(event="not_added", parts=names, cause=error.cause, words=str(error))
            else:
                try:
                    if driver.start(told["part"], told["spec"]):
                        say(event="moved", part=told["part"], where=driver.where())
                except RayError as error:
                    say(event="ended", worker_id=told["spec"]["worker_id"], why=str(error), cause=error.cause)
        for event in driver.step(time.monotonic()):
            say(**event)
        orders = [] if lines.ended else lines.read(STEP_S)
    driver.end(grace_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())
