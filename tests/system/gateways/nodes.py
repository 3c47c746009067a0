"""Two gateways of one schedule on loopback: their files, as a person writes them, and a robot's link."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rosa_client.connection.link import GatewayLink
from rosa_contract.wire import messages as m
from rosa_server.serving.edge.access import make_keys
from rosa_sim.ports import free_ports
from tests.system.schedule.plans import FACTORY, rosa_plan, write_profiles
from tests.system.server_harness import PATIENCE_S, Server

QUICK = FACTORY.replace("load_s: 2", "load_s: 0")
BUDGET_S = 20.0


class TwoNodes:
    """`a` has the server that the first slot's System 1 runs on, and `b` all others, the standby too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        profiles = folder / "profiles"
        write_profiles(profiles)
        self.nodes_file = folder / "nodes.yaml"
        self.servers: dict[str, Server] = {}
        for name in "ab":
            (folder / name).mkdir()
            self.servers[name] = Server(folder / name, factory=QUICK, arguments=self.arguments(name))
        self.a, self.b = self.servers["a"], self.servers["b"]
        self.plan = rosa_plan(self.a.config, "--standby", "1", "--profiles", str(profiles))
        names = [one["id"] for one in self.plan["servers"]]
        first = self.plan["routing"]["pick/0"]["system1"]
        self.servers_of = {"a": [first], "b": [name for name in names if name != first]}
        make_keys(folder / "keys", nodes=("a", "b"))
        ports = free_ports(2)
        nodes = {
            name: {
                "robots": self.servers[name].endpoint,
                "gateways": f"tcp://127.0.0.1:{port}",
                "servers": self.servers_of[name],
            }
            for name, port in zip("ab", ports, strict=True)
        }
        content = {"keys": str(folder / "keys"), "state": str(folder / "state"), "nodes": nodes}
        self.nodes_file.write_text(json.dumps(content))  # JSON is YAML

    def arguments(self, name: str) -> list[str]:
        """Of `rosa serve` for this node."""
        told = [
            "--schedule",
            str(self.folder / "a" / "plan.json"),
            "--profiles",
            str(self.folder / "profiles"),
        ]
        return [*told, "--nodes", str(self.nodes_file), "--node", name]

    def with_keys(self, name: str, *robots: str) -> Server:
        """Another server for this node, which lets nobody in but these robots and the other gateway."""
        folder = self.folder / f"{name}_with_keys"
        folder.mkdir()
        make_keys(self.folder / "keys", *robots)
        told = [*self.arguments(name), "--keys", str(self.folder / "keys")]
        server = Server(folder, factory=QUICK, arguments=told)
        server.port = self.servers[name].port
        return server

    def kill(self) -> None:
        for server in self.servers.values():
            server.kill()


class Asks:
    """A robot that asks one call after the other of each component over the link that robots have."""

    def __init__(
        self, name: str, task: str, gateways: str, components: Sequence[str], keys: str = ""
    ) -> None:
        self.name = name
        self.link = GatewayLink(gateways, m.Hello(name, task, {}, {}), keys)
        self.answered: list[tuple[str, str, int]] = []  # (endpoint, component, request id), each with ok
        self.unserved: list[m.Response] = []  # answers without a result
        self._left: set[int] = set()  # requests whose gateway was left: they may be answered, once, or not
        self._at = self.link.endpoint
        self.components = components
        self._open: dict[int, tuple[str, str]] = {}  # request -> (endpoint, component)
        self._number = 0

    def step(self) -> None:
        now_s = time.monotonic()
        for answer in self.link.poll(0.002, now_s):
            if answer.request_id in self._left:
                self._left.remove(answer.request_id)
                continue
            asked = self._open.pop(answer.request_id, None)
            assert asked is not None, f"{self.name}: {answer.request_id} is answered twice, or was not asked"
            if answer.status == m.OK:
                self.answered.append((*asked, answer.request_id))
            else:  # whoever ran it is gone, and nobody could take its place in time
                assert answer.status in (m.UNAVAILABLE, m.FAILED, m.EXPIRED), answer
                self.unserved.append(answer)
        self._at = self.link.endpoint
        for number in [n for n, (at, _) in self._open.items() if not self.link.ready or at != self._at]:
            del self._open[number]
            self._left.add(number)
        busy = {component for _, component in self._open.values()}
        for component in self.components if self.link.ready else ():
            if component not in busy:
                self._number += 1
                if self.link.send(m.Request(self._number, component, BUDGET_S * 1000), now_s):
                    self._open[self._number] = (self.link.endpoint, component)

    def count(self, component: str, endpoint: str) -> int:
        """How often this component was answered by this gateway."""
        return sum(1 for at, name, _ in self.answered if (at, name) == (endpoint, component))


def run_until(robots: Sequence[Asks], done: Callable[[], Any], logs: Callable[[], str] = lambda: "") -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end_s, (
            [(one.name, one.link.endpoint, one.link.reason) for one in robots],
            logs(),
        )
        for one in robots:
            one.step()
