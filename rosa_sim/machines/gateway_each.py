"""Two machines with a gateway each, of one schedule, started by `rosa up`; robots of both, the simulated Panda among
them, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from rosa_server.serving.edge.access import make_keys
from rosa_sim.machines.nodes import Nodes, two_nodes
from rosa_sim.machines.panda import Panda, with_panda
from rosa_sim.machines.planned import plan
from rosa_sim.machines.rows import Row
from rosa_sim.machines.story import AFTER_S, ROBOTS_PORT, Story, factory

SERVERS = 3  # of which one stands by
PANDA_SERVERS = 2  # more, for its policy and its monitor
CALM_S = 4.0
CUT_S = 3.0
LONG_S = 900.0
UP_S = 240.0
BACK_S = 180.0  # Ray takes a node for lost after 16 s, and its next life takes some more
BACKEND = "rosa_sim.machines.troubled:TroubledBackend"


class GatewayEach(Story):
    """Gateway `a` on the first machine, `b` on the second one. Half of the robots begin with each."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        super().__init__(nodes, folder)
        self._environment["XDG_RUNTIME_DIR"] = nodes.environment["XDG_RUNTIME_DIR"]
        self._up = False
        self.theirs = "gpu1"  # a server of `b`
        self.all_of_them = self.less = ""  # the schedule that it begins with, and one with a server less
        self._words: tuple[str, ...] = ()
        hosts = {"a": nodes.one.address, "b": nodes.two.address}
        # Both machines have this one's files, so the sockets of their commands must have different names.
        self.robots_at = {n: f"tcp://{host}:{ROBOTS_PORT + i}" for i, (n, host) in enumerate(hosts.items())}
        self._nodes_file: dict[str, dict[str, Any]] = {
            name: {"robots": self.robots_at[name], "gateways": f"tcp://{host}:{ROBOTS_PORT + 10}"}
            for name, host in hosts.items()
        }

    def up(self, content: dict[str, Any]) -> None:
        """Raises `RuntimeError` with what `rosa up` says where it refuses."""
        folder, servers = self._folder, content["server_cluster"]["num_servers"]
        less, told = (plan(self.nodes, content, folder, count, standby=1) for count in (servers - 1, servers))
        self.less, self.all_of_them = less[1], told[1]
        if servers > SERVERS:
            self._place(Path(told[1]))
        (folder / "factory.yaml").write_text(yaml.safe_dump(content))
        make_keys(folder / "keys", nodes=("a", "b"))
        (folder / "nodes.yaml").write_text(
            yaml.safe_dump({"keys": "keys", "state": "state", "nodes": self._nodes_file})
        )
        files = (str(folder / "factory.yaml"), *told, "--nodes", str(folder / "nodes.yaml"))
        self._words = ("up", *files, "--insecure")
        done = self.again()
        if done.returncode:
            raise RuntimeError(f"rosa up: {done.stdout[-2000:]}{done.stderr[-2000:]}{self.text()[-2000:]}")
        self._up = True

    def _place(self, schedule: Path) -> None:
        """One server of the robots' model on `b`, all others on `a`: the standby stands in for one server, and with the
        machine of `b` no more than that is lost."""
        servers = json.loads(schedule.read_text())["servers"]
        self.theirs = [one["id"] for one in servers if one["models"] == ["policy"]][-1]
        self._nodes_file["b"]["servers"] = [self.theirs]
        self._nodes_file["a"]["servers"] = [one["id"] for one in servers if one["id"] != self.theirs]

    def again(self) -> subprocess.CompletedProcess[str]:
        """The same command once more."""
        return self._rosa(*self._words)

    def down(self) -> str:
        """Raises `RuntimeError`. Returns what it has said."""
        done = self._rosa("down")
        if done.returncode:
            raise RuntimeError(f"rosa down: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        self._up = False
        return done.stdout

    def _rosa(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "rosa_server.cli", *words, "--address", self.nodes.address)
        return self.nodes.run(self.nodes.one, command, UP_S, self._environment)

    def text(self, node: str = "") -> str:
        """What the gateway of a node has logged; empty: of all."""
        paths = (self._folder / "state" / f"gateway-{name}" / "gateway.log" for name in node or "ab")
        return "\n".join(path.read_text(errors="replace") for path in paths if path.exists())

    def events_at(self, node: str, name: str, since_s: float = 0.0) -> list[dict[str, Any]]:
        """As `events`, of one gateway."""
        return self.events(name, since_s, self.text(node))

    def gateways(self, first: str) -> str:
        """What a robot is told that begins with this one."""
        return ",".join(
            self.robots_at[name] for name in sorted(self.robots_at, key=lambda name: name != first)
        )

    def fleet(self, count: int) -> None:
        """`count` robots, on the first machine."""
        for name in "ab":
            half = count // 2 if name == "b" else count - count // 2
            words = (self.gateways(name), str(self._folder / "factory.yaml"), str(half), str(LONG_S))
            told = (str(self._folder / f"{name}.jsonl"), name)
            command = (sys.executable, "-m", "rosa_sim.machines.robots", *words, *told)
            self.start(self.nodes.one, command, self._folder / f"robots_{name}.log")

    def slots(self, node: str) -> dict[str, str]:
        """Robot -> the slot that this gateway has welcomed it to last."""
        return {line["robot"]: line["slot"] for line in self.events_at(node, "robot_joined")}

    def close(self) -> None:
        super().close()
        if self._up:
            self.down()


class GatewayEvents:
    """What goes wrong or is done by people, one after the other, and what it cost."""

    def __init__(self, told: GatewayEach, folder: Path, robots: int, panda: bool = False) -> None:
        self._told, self._folder, self._nodes, self._robots = told, folder, told.nodes, robots
        self._with_panda = panda
        self._panda: Panda | None = None

    def begin(self) -> None:
        """Gateways, robots, and the Panda at `b`. Raises `TimeoutError`, `RuntimeError`."""
        told, (old, new) = self._told, (self._folder / "old", self._folder / "new")
        for path in (old, new):
            path.write_text("weights")
        content = factory(self._nodes, workers=0, weights=str(old))
        content["models"]["policy"]["backend"] = BACKEND
        content["robot_fleet"][0]["num_robots"] = self._robots
        content["server_cluster"]["num_servers"] = SERVERS + self._with_panda * PANDA_SERVERS
        told.up(with_panda(content) if self._with_panda else content)
        told.until(
            lambda: told.events_at("a", "peer_here") and told.events_at("b", "peer_here"), "both gateways"
        )
        told.fleet(self._robots)
        told.until(lambda: len(told.served(0.0)) == self._robots, "every robot served")
        if self._with_panda:
            config = self._folder / "factory.yaml"
            self._panda = Panda(told, told.gateways("b"), config, self._folder)

    def end(self) -> bool:
        """Whether the Panda did its work, where there is one."""
        return self._panda is None or self._panda.end()

    def one_of_each(self) -> list[Row]:
        """What happens to one node is seen from the other one; what people order, they order at `a`."""
        told, nodes, new = self._told, self._nodes, str(self._folder / "new")
        theirs = nodes.workers(nodes.two)[0]
        rows = [
            self._happens(
                "a worker of b is killed",
                lambda: os.kill(theirs, signal.SIGKILL),
                "b",
                "worker_lost",
                "worker_ready",
            ),
            self._happens(f"the link of b is cut for {CUT_S:g} s", self._cut, "a", "peer_lost", "peer_here"),
            self._ordered("a server of b is drained, at a", "drain", told.theirs),
            self._ordered("and given back, at a", "undrain", told.theirs),
            self._ordered(
                "new weights for both, at a", "rollout", "policy", new, "--shadow", "2", "--slower", "10"
            ),
        ]
        rows += [
            self._ordered("a schedule with a server less, at a", "reschedule", told.less),
            self._ordered("and the one before again, at a", "reschedule", told.all_of_them),
        ]
        had = told.slots("b")
        rows.append(
            self._happens("the machine of b is killed", lambda: nodes.kill(nodes.two), "a", "peer_lost", "")
        )
        now = told.slots("a")
        kept = sum(now.get(robot) == slot for robot, slot in had.items())
        print(f"{kept} of {len(had)} robots of b have their slots at a", flush=True)
        rows.append(self._happens("and comes back", self._back, "a", "", "peer_here", BACK_S))
        return rows

    def _cut(self) -> None:
        self._nodes.cut(self._nodes.two)
        time.sleep(CUT_S)
        self._nodes.mend(self._nodes.two)

    def _back(self) -> None:
        self._nodes.mend(self._nodes.two)
        self._nodes.start(self._nodes.two)

    def _happens(
        self, what: str, act: Callable[[], None], node: str, noticed: str, healed: str, limit_s: float = 60.0
    ) -> Row:
        """`noticed`, `healed`: events of the gateway of `node`; without `healed`: every robot is served."""
        told = self._told
        time.sleep(CALM_S)
        at_s = time.monotonic()
        act()
        if healed:
            told.until(lambda: told.events_at(node, healed, at_s), f"{healed} after {what!r}", limit_s)
            healed_s = told.events_at(node, healed, at_s)[-1]["at_s"] - at_s
        else:
            told.until(
                lambda: len(told.served(at_s)) == self._robots, f"every robot served after {what!r}", limit_s
            )
            healed_s = max(told.first_served(at_s).values()) - at_s
        time.sleep(max(0.0, at_s + AFTER_S - time.monotonic()))
        seen = told.events_at(node, noticed, at_s) if noticed else []
        return self._row(what, at_s, seen[0]["at_s"] - at_s if seen else 0.0, healed_s)

    def _ordered(self, what: str, *words: str) -> Row:
        """Raises `TimeoutError` where it is refused."""
        time.sleep(CALM_S / 2)
        at_s = time.monotonic()
        done = self._told.rosa(*words)
        if done.returncode:
            raise TimeoutError(f"rosa {' '.join(words)}: {done.stderr[-2000:]}")
        return self._row(what, at_s, 0.0, time.monotonic() - at_s)

    def _row(self, what: str, at_s: float, noticed_s: float, healed_s: float) -> Row:
        later_s = time.monotonic()
        time.sleep(CALM_S)
        missed = self._told.missed(at_s, time.monotonic() - at_s)
        lost = self._robots - len(self._told.served(later_s))
        return Row(what, noticed_s, healed_s, len(missed), max(missed.values(), default=0), lost)


@contextmanager
def gateway_each(nodes: Nodes, folder: Path) -> Iterator[GatewayEach]:
    """Nothing that it started is left afterwards."""
    made = GatewayEach(nodes, folder)
    try:
        yield made
    finally:
        made.close()


def once(robots: int, panda: bool) -> tuple[list[Row], bool]:
    """Two new machines with a gateway each, robots, one of each event, and a clean end.

    Returns what it cost the robots, and whether the Panda did its work.
    """
    began_s = time.monotonic()
    print("starting two nodes of Ray, and a gateway on each ...", flush=True)
    with (
        two_nodes() as nodes,
        tempfile.TemporaryDirectory(prefix="rosa-each-") as folder,
        gateway_each(nodes, Path(folder)) as told,
    ):
        events = GatewayEvents(told, Path(folder), robots, panda)
        events.begin()
        print(f"{robots} robots are served after {time.monotonic() - began_s:.0f} s", flush=True)
        rows = events.one_of_each()
        worked = events.end()
        print(told.down().strip(), flush=True)
        left = [pid for machine in (nodes.one, nodes.two) for pid in nodes.named(machine, b"rosa_server.")]
        if left:
            raise TimeoutError(f"processes are left: {left}")
        calls = [call for call in told.calls() if call.component]
    in_time, took_s = sum(call.ending == "in_time" for call in calls), time.monotonic() - began_s
    print(
        f"{robots} robots, {len(calls)} calls, {in_time} in time; ended clean after {took_s:.0f} s",
        flush=True,
    )
    return rows, worked
