"""Two gateways get to another schedule while their robots ask on: none loses its slot, and no call is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.system.gateways.nodes import Asks, TwoNodes, run_until
from tests.system.operations.asking import environment
from tests.system.server_harness import PATIENCE_S, Server

COMPONENTS = {"pick": ("system1", "safety"), "sort": ("system1",)}


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoNodes]:
    home = tmp_path / "run"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    made = TwoNodes(tmp_path)
    yield made
    made.kill()


class Story:
    """Both gateways, three robots that ask without a pause, and what persons type meanwhile."""

    def __init__(self, nodes: TwoNodes, stack: ExitStack) -> None:
        self.nodes = nodes
        both = f"{nodes.a.endpoint},{nodes.b.endpoint}"
        self.robots = [
            Asks(name, task, both, COMPONENTS[task])
            for name, task in (("p0", "pick"), ("p1", "pick"), ("s0", "sort"))
        ]
        for one in self.robots:
            stack.callback(one.link.close)

    def logs(self) -> str:
        return "\n".join(server.log()[-6000:] for server in (self.nodes.a, self.nodes.b))

    def until(self, done: Any) -> None:
        run_until(self.robots, done, self.logs)

    def more(self, times: int = 5) -> None:
        """Each component of each robot is answered so often again."""
        wanted = {
            (one, name): sum(c == name for _, c, _ in one.answered) + times
            for one in self.robots
            for name in one.components
        }
        self.until(
            lambda: all(
                sum(c == name for _, c, _ in one.answered) >= count for (one, name), count in wanted.items()
            )
        )

    def rosa(self, at: Server, *words: str) -> tuple[int, str]:
        """A command of a person on this machine; robots ask on while it runs. Its status, and all that it has said."""
        with tempfile.TemporaryFile() as said:
            command = [sys.executable, "-m", "rosa_server.cli", *words, "--server", str(at.port)]
            typed = subprocess.Popen(command, stdout=said, stderr=said, env=environment())
            try:
                self.until(lambda: typed.poll() is not None)
            finally:
                typed.kill()
                typed.wait(PATIENCE_S)
            said.seek(0)
            return typed.returncode, said.read().decode()

    def slots(self) -> dict[str, str]:
        joined = [line for server in (self.nodes.a, self.nodes.b) for line in server.events("robot_joined")]
        found = {
            name: {line["slot"] for line in joined if line["robot"] == name} for name in ("p0", "p1", "s0")
        }
        assert all(len(some) == 1 for some in found.values()), found
        return {name: some.pop() for name, some in found.items()}

    def runs(self, server: Server) -> int:
        """The number of the schedule that a gateway has got to."""
        return max((int(line["epoch"]) for line in server.events("schedule_runs")), default=0)


def test_the_fleet_grows_and_shrinks_while_robots_ask_and_who_was_away_follows(nodes: TwoNodes) -> None:
    a, b = nodes.a, nodes.b
    for server in (a, b):
        server.start()
    with ExitStack() as stack:
        story = Story(nodes, stack)
        story.until(lambda: a.events("peer_here") and b.events("peer_here"))
        story.more()
        slots = story.slots()
        lost = [len(one.unserved) for one in story.robots]  # while gateways came

        workers = {name: len(nodes.servers[name].workers()) for name in "ab"}
        status, said = story.rosa(a, "scale", "servers=5", "--dry-run")
        assert status == 0 and "would follow" in said and "on node" in said, said
        assert story.runs(a) == story.runs(b) == 1

        status, said = story.rosa(a, "scale", "servers=5", "--save", str(nodes.folder / "five.json"))
        assert status == 0 and "5 servers (was 4)" in said and "streams move" in said, said
        more = {name: len(nodes.servers[name].workers()) for name in "ab"}
        assert sum(more.values()) == sum(workers.values()) + 1
        assert story.runs(a) == story.runs(b) > 1
        story.more()

        status, said = story.rosa(b, "reschedule", str(nodes.folder / "a" / "plan.json"))
        assert status == 0 and "unloads" in said, said
        story.until(lambda: {n: len(nodes.servers[n].workers()) for n in "ab"} == workers)
        story.more()
        assert story.slots() == slots, "each robot has the slot that it had"
        assert [len(one.unserved) for one in story.robots] == lost, "and no call was lost"

        epoch = story.runs(a)
        for forgets in (False, True):  # b is killed, and the second time its disk is gone with it
            b.stop(signal.SIGKILL)
            story.until(lambda: a.events("peer_lost"))
            if not forgets:
                status, said = story.rosa(a, "scale", "servers=5")
                assert status == 2 and "node_away" in said, said
            else:
                (nodes.folder / "state" / f"b-{b.port}.slots").unlink()
            # A gateway says what it runs when it begins, and with each schedule that it gets to.
            known = len(b.events("schedule_runs")) + 1 + forgets
            b.start()
            story.until(lambda count=known: len(b.events("schedule_runs")) >= count)
            assert b.events("schedule_runs")[-1]["epoch"] == epoch
            story.more()
        begun = [int(line["epoch"]) for line in b.events("schedule_runs")]
        assert begun[-3:] == [epoch, 1, epoch], "the last time it has got it from a"
        status, said = story.rosa(b, "scale", "servers=5", "--save", str(nodes.folder / "again.json"))
        assert status == 0 and story.runs(a) == story.runs(b) > epoch, said
        story.more()
        assert story.slots() == slots
        assert len(json.loads((nodes.folder / "again.json").read_text())["servers"]) == 5
    for server in (a, b):
        assert server.stop() == 0, server.log()
