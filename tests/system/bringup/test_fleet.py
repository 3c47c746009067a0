"""Several robots in one bring-up: what ends by itself takes along what needs it, and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import psutil
import pytest
import rclpy
from rosa_interfaces.msg import OperatorAlert

from rosa_client.bringup import bringup as bringup_module
from rosa_client.bringup.bringup import Bringup, watch
from rosa_client.bringup.graph import NodeSpec, Robot, robot_graph
from rosa_client.bringup.names import Names
from rosa_client.bringup.supervisor import BringupError
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.recording.bag import read
from rosa_sim.ports import free_port
from tests.system.operator.place import LATEST, ROOT, Floor, begin
from tests.system.replayed import robot_file

FIRST, SECOND = "panda0", "panda1"
PANDA = Robot(
    config=str(ROOT / "configs" / "pick_place.yaml"), robot=str(ROOT / "configs" / "robots" / "panda.yaml")
)
LEFT, RIGHT = replace(PANDA, namespace="left"), replace(PANDA, namespace="right")
FACTORY = """
server_cluster: {{num_servers: 1, gpu_type: cpu}}
robot_fleet:
  - {{task: easy, num_robots: 2}}
easy:
  pipeline: {{action_period_ms: 200}}
  components:
    system1: {{model: quick, slo_ms: 2000, fallback: stop_and_resend}}
models:
  quick: {{backend: emulated, options: {{latency_ms: 5}}}}
gateway: {{bind: "{endpoint}", metrics_port: 0}}
"""


def sleepers(robot: Robot) -> list[NodeSpec]:
    """Nodes without ROS, which start and end at once."""
    names = ("arm_node", "camera_node")
    return [NodeSpec("tests.system.bringup.sleeper", name, f"/{robot.namespace}") for name in names]


def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "did not happen in time"
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def _nobody_is_listened_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here no robot is brought up twice, which `test_names.py` does."""
    monkeypatch.setattr(Names, "take", partialmethod(Names.take, listen_s=0.0))


@pytest.fixture
def fleet() -> Iterator[Bringup]:
    bringup = Bringup([LEFT, RIGHT], graph=sleepers)
    with bringup:
        yield bringup


def test_the_end_of_a_node_is_told_once(fleet: Bringup) -> None:
    assert fleet.news() == []
    fleet.supervisor.kill("left/camera_node")
    (line,) = fleet.news()
    assert line.startswith("left/camera_node ended by SIGKILL: left is lost.")
    assert fleet.news() == []
    assert fleet.lost() == ["left"]
    assert fleet.failure() == ""
    assert fleet.supervisor.is_running("left/arm_node"), "what is left of the robot stays up"


def test_a_panel_is_started_again_after_a_while_however_often_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bringup_module, "PANEL_AGAIN_AFTER_S", 0.05)
    screen = NodeSpec("tests.system.bringup.sleeper", "operator_node", "/")
    with Bringup([LEFT], graph=sleepers, panel=screen) as bringup:
        for _ in range(5):
            bringup.supervisor.kill(screen.process)
            (line,) = bringup.news()
            assert line.startswith("operator_node ended by SIGKILL: robots go on; until it is started again")
            assert not bringup.supervisor.is_running(screen.process), "one that fails at once must not spin"
            until(lambda: bringup.news() == [] and bringup.supervisor.is_running(screen.process))
        assert (bringup.lost(), bringup.failure()) == ([], "")


def test_a_bring_up_that_is_ended_after_a_loss_has_failed(fleet: Bringup) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(fleet, interrupt)
    fleet.supervisor.kill("left/camera_node")
    with pytest.raises(BringupError, match=r"lost on the way: left$"):
        watch(fleet, interrupt)


def test_a_bring_up_fails_with_its_last_robot(fleet: Bringup) -> None:
    fleet.supervisor.kill("left/camera_node")
    fleet.supervisor.kill("right/arm_node")
    with pytest.raises(
        BringupError, match="left/camera_node ended by SIGKILL, right/arm_node ended by SIGKILL"
    ):
        watch(fleet, lambda: None)


def test_what_is_down_on_purpose_is_no_loss(fleet: Bringup) -> None:
    fleet.down.add("left/camera_node")
    fleet.supervisor.kill("left/camera_node")
    assert (fleet.news(), fleet.lost(), fleet.failure()) == ([], [], "")


def test_a_robot_that_does_not_come_up_is_lost_and_the_others_start() -> None:
    """Its driver ends at once, and its runtime never becomes active."""

    def graph(robot: Robot) -> list[NodeSpec]:
        broken = NodeSpec("tests.system.bringup.no_such_driver", "arm_node", f"/{robot.namespace}")
        silent = NodeSpec("tests.system.bringup.sleeper", "runtime_node", f"/{robot.namespace}")
        return [broken, silent] if robot is LEFT else sleepers(robot)

    with Bringup([LEFT, RIGHT], graph=graph) as bringup:
        assert bringup.lost() == ["left"]
        assert ["left/arm_node ended with status 1" in line for line in bringup.news()] == [True]
        assert bringup.supervisor.is_running("right/camera_node")
    with pytest.raises(BringupError, match="left/arm_node ended with status 1"), Bringup([LEFT], graph=graph):
        pass


def test_a_runtime_that_is_never_active_or_refuses_is_told_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever it is must be put right before any robot works, so the others do not start either."""
    monkeypatch.setattr(bringup_module, "ACTIVE_WITHIN_S", 1.0)

    def hangs(robot: Robot) -> list[NodeSpec]:
        return [NodeSpec("tests.system.bringup.sleeper", "runtime_node", f"/{robot.namespace}")]

    with pytest.raises(BringupError, match=r"^/left/runtime_node did not become active within 1 s$"):
        Bringup([LEFT, RIGHT], graph=hangs).__enter__()
    assert Bringup([replace(LEFT, autostart=False)], graph=hangs).__enter__().stop() is None

    monkeypatch.setattr(bringup_module, "ACTIVE_WITHIN_S", 30.0)

    def refuses(robot: Robot) -> list[NodeSpec]:
        runtime = robot_graph(robot)[-1]
        return [replace(runtime, parameters={**runtime.parameters, "task": "no_such_task"})]

    with pytest.raises(BringupError, match=r"^/left/runtime_node cannot start: .*'no_such_task'"):
        Bringup([LEFT, RIGHT], graph=refuses).__enter__()


def test_an_arm_that_takes_too_long_is_named_and_the_others_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be waiting for its hardware, which somebody switches on."""
    monkeypatch.setattr(bringup_module, "ACTIVE_WITHIN_S", 0.5)

    def graph(robot: Robot) -> list[NodeSpec]:
        slow = {"autostart": True} if robot is LEFT else {}
        return [NodeSpec("tests.system.bringup.sleeper", "arm_node", f"/{robot.namespace}", slow)]

    with Bringup([LEFT, RIGHT], graph=graph) as bringup:
        assert (bringup.lost(), bringup.failure()) == ([], "")
    said = capsys.readouterr().out
    assert "[bringup] /left/arm_node did not become active within 0.5 s" in said
    assert "/right/arm_node did not" not in said


class Running:
    """A bring-up of two robots that replay a picture, as a user starts it: with a server, and both recorded."""

    def __init__(self, folder: Path) -> None:
        endpoint = f"tcp://127.0.0.1:{free_port()}"
        self._log = folder / "log"
        self.bags = [folder / f"run_{name}.mcap" for name in (FIRST, SECOND)]
        (folder / "factory.yaml").write_text(FACTORY.format(endpoint=endpoint))
        values = {
            "config": folder / "factory.yaml",
            "robot": robot_file(folder),
            "gateway": endpoint,
            "driver": "replay",
            "source": folder,
            "record": folder / "run.mcap",
            "fleet": "true",
            "start_server": "true",
        }
        command = [
            sys.executable,
            "-m",
            "rosa_client.bringup",
            *(f"{k}:={v}" for k, v in values.items()),
        ]
        self.ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ready.bind(str(folder / "ready"))
        self.ready.setblocking(False)
        with self._log.open("w") as log:
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "NOTIFY_SOCKET": str(folder / "ready")}
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def said(self) -> str:
        return self._log.read_text()

    def kill(self, robot: str, node: str) -> None:
        """SIGKILL one node, and wait until it was said."""
        found = [
            child
            for child in psutil.Process(self.process.pid).children()
            if {f"__ns:=/{robot}", f"__node:={node}"} <= set(child.cmdline())
        ]
        assert len(found) == 1, f"{robot}/{node}: {len(found)} processes"
        found[0].kill()
        until(lambda: f"ERROR: {robot}/{node} ended by SIGKILL: " in self.said())

    def close(self) -> None:
        """Ask it to end; it kills its nodes when it cannot ask them."""
        self.ready.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        finally:
            self.process.kill()


@pytest.mark.slow
def test_a_robot_works_on_when_recorder_and_neighbour_end(tmp_path: Path) -> None:
    prepare_environment()
    cell = Running(tmp_path)
    begin()
    floor = Floor((FIRST, SECOND))
    alerts: list[OperatorAlert] = []
    floor.node.create_subscription(OperatorAlert, f"/{FIRST}/operator_alert", alerts.append, LATEST)

    def work(name: str) -> None:
        goal = floor.rounds[name] + 2
        floor.until(
            lambda: floor.rounds[name] >= goal, f"{name} to complete two more rounds; {cell.said()[-2000:]}"
        )

    try:
        for name in (FIRST, SECOND):
            floor.start(name, "easy")
            work(name)
        until(lambda: "running panda0 (easy), panda1 (easy)" in cell.said())
        assert cell.ready.recv(100) == b"READY=1", "as a systemd unit of Type=notify waits for"
        with pytest.raises(BlockingIOError):
            cell.ready.recv(100)  # its nodes tell it, and not whoever started it

        cell.kill(FIRST, "recorder_node")
        for name in (FIRST, SECOND):
            work(name)
        kept = [entry.topic for entry in read(cell.bags[0], lambda topic: topic == f"/{FIRST}/decisions")]
        assert kept, "what the recorder had heard until then"

        cell.kill(FIRST, "camera_node")
        floor.until(lambda: [alert for alert in alerts if alert.active], f"{FIRST} to call a human")
        assert alerts[-1].cause == "sensor_silent"
        work(SECOND)
        assert cell.process.poll() is None, cell.said()[-2000:]

        cell.kill(SECOND, "runtime_node")
        assert cell.process.wait(30) == 2
        assert f"{FIRST}/camera_node ended by SIGKILL, {SECOND}/runtime_node ended by SIGKILL" in cell.said()
    finally:
        floor.close()
        rclpy.try_shutdown()
        cell.close()
