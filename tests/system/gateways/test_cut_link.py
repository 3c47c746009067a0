"""Three gateways of one schedule, and a link between two that is cut: a robot goes on with its slot, and nothing is
answered twice. Each gateway is on a machine of its own, which is a network namespace.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rosa_server.serving.edge.access import make_keys
from rosa_sim.namespaces import Machine, cut_between, denied, machines, mend_between
from rosa_sim.ports import free_ports
from tests.system.gateways.nodes import QUICK
from tests.system.schedule.plans import rosa_plan, write_profiles
from tests.system.server_harness import PATIENCE_S, ROOT, Server

NAMES = "abc"
WHY_NOT = denied()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"no network namespaces here: {WHY_NOT}")


class ThreeNodes:
    """`a` runs System 1 of the first slot, `b` its safety checker, and `c` everything else, the standby too."""

    def __init__(self, folder: Path, at: Sequence[Machine]) -> None:
        self.folder, self.at = folder, dict(zip(NAMES, at, strict=True))
        write_profiles(folder / "profiles")
        make_keys(folder / "keys", "p0", nodes=tuple(NAMES))
        self.servers = {name: self._server(name) for name in NAMES}
        plan = rosa_plan(self.servers["a"].config, "--standby", "1", "--profiles", str(folder / "profiles"))
        self.routes = plan["routing"]
        first = self.routes["pick/0"]
        self.has = has = {"a": [first["system1"]], "b": [first["safety"]]}
        assert has["a"] != has["b"]
        has["c"] = [one["id"] for one in plan["servers"] if [one["id"]] not in (has["a"], has["b"])]
        ports = dict(zip(NAMES, zip(*[iter(free_ports(6))] * 2, strict=True), strict=True))
        self.robots_at = {name: f"tcp://{self.at[name].address}:{ports[name][0]}" for name in NAMES}
        nodes = {
            name: {
                "robots": self.robots_at[name],
                "gateways": f"tcp://{self.at[name].address}:{ports[name][1]}",
                "servers": has[name],
            }
            for name in NAMES
        }
        content = {"keys": str(folder / "keys"), "state": str(folder / "state"), "nodes": nodes}
        (folder / "nodes.yaml").write_text(json.dumps(content))
        self.robot: subprocess.Popen[bytes] | None = None

    def _server(self, name: str) -> Server:
        folder = self.folder
        (folder / name).mkdir()
        files = {
            "schedule": folder / "a" / "plan.json",
            "profiles": folder / "profiles",
            "keys": folder / "keys",
        }
        told = [word for option, path in files.items() for word in (f"--{option}", str(path))]
        told += ["--nodes", str(folder / "nodes.yaml"), "--node", name]
        return Server(folder / name, factory=QUICK, arguments=told, within=self.at[name].command())

    def begin(self) -> None:
        for server in self.servers.values():
            server.start()
        words = ("p0", "pick", ",".join(self.robots_at.values()), "system1,safety")
        command = (sys.executable, "-m", "tests.system.gateways.asks", *words)
        files = (str(self.folder / "keys"), str(self.folder / "answers.jsonl"))
        with (self.folder / "robot.log").open("wb") as log:
            self.robot = subprocess.Popen(
                self.at["a"].command(*command, *files), cwd=ROOT, stdout=log, stderr=log
            )

    def answered(self, since_s: float) -> list[str]:
        """The components of the answers since then."""
        path = self.folder / "answers.jsonl"
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("]")]
        return [line[2] for line in lines if line[0] >= since_s]

    def until(self, condition: Callable[[], object], what: str) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            said = (self.folder / "robot.log").read_text()
            assert self.robot is not None and self.robot.poll() is None, said
            logs = "\n".join(server.log()[-3000:] for server in self.servers.values())
            assert time.monotonic() < end_s, f"{what}\n{said}\n{logs}"
            time.sleep(0.05)

    def both(self, what: str) -> None:
        """Each component is answered again, more than once."""
        since_s = time.monotonic()
        self.until(lambda: all(self.answered(since_s).count(c) > 2 for c in ("system1", "safety")), what)

    def here(self, name: str, other: str) -> int:
        """How often one gateway has met another one."""
        return sum(line["node"] == other for line in self.servers[name].events("peer_here"))

    def close(self) -> None:
        if self.robot is not None:
            self.robot.kill()
            self.robot.wait(PATIENCE_S)
        for server in self.servers.values():
            server.kill()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ThreeNodes]:
    with machines(3) as at:
        made = ThreeNodes(tmp_path, at)
        try:
            yield made
        finally:
            made.close()


def test_a_robot_goes_on_while_the_link_between_two_gateways_is_cut_and_afterwards(three: ThreeNodes) -> None:
    three.begin()
    a = three.servers["a"]
    three.until(
        lambda: all(three.here("a", other) for other in "bc") and three.here("b", "c"), "all three are there"
    )
    three.both("everything is answered, safety by b")
    met = three.here("a", "b"), three.here("b", "a")
    cut_between(three.at["a"], three.at["b"])
    three.until(lambda: any(line["node"] == "b" for line in a.events("peer_lost")), "a misses b")
    three.both("the standby at c answers for b")
    mend_between(three.at["a"], three.at["b"])
    three.until(lambda: three.here("a", "b") > met[0] and three.here("b", "a") > met[1], "both are back")
    three.both("everything is answered")
    joined = [line for server in three.servers.values() for line in server.events("robot_joined")]
    (slot,) = {line["slot"] for line in joined}
    assert three.routes[slot]["safety"] in three.has["b"], "so a had to forward it"
    assert three.robot is not None and three.robot.poll() is None, "nothing was answered twice"
