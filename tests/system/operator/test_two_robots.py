"""The shipped `configs/two_robots.yaml`: two simulated Pandas with two tasks, one server, one panel, one command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import rclpy

from rosa_client.nodes.base.environment import prepare_environment
from rosa_sim.ports import free_port
from tests.system.operator.place import ROOT, Floor, Rviz, begin

pytestmark = pytest.mark.slow
FIRST, SECOND = "panda0", "panda1"


def panels(cell: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The panel's process, when there is one."""
    children = psutil.Process(cell.pid).children()
    return [one for one in children if one.is_running() and "operator_node" in " ".join(cmdline(one))]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:  # it has just ended
        return []


def test_two_robots_work_on_two_tasks_under_one_panel(tmp_path: Path) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    # Two simulated robots and their models are more than a slow machine computes within the shipped deadlines.
    shipped = re.sub(r"slo_ms: \d+", "slo_ms: 10000", (ROOT / "configs" / "two_robots.yaml").read_text())
    config = tmp_path / "two_robots.yaml"
    config.write_text(f"{shipped}\ngateway: {{bind: '{endpoint}', metrics_port: 0}}\n")
    arguments = [
        f"config:={config}",
        f"gateway:={endpoint}",
        "fleet:=true",
        "panel:=true",
        "start_server:=true",
    ]
    log = (tmp_path / "log").open("w")
    prepare_environment()
    command = [sys.executable, "-m", "rosa_client.bringup", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    cell = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    begin()
    floor, rviz = Floor((FIRST, SECOND)), Rviz("rviz")
    try:
        floor.start(FIRST, "pick_and_place")
        floor.start(SECOND, "pick_and_place_carefully")
        for name in (FIRST, SECOND):
            floor.until(lambda name=name: floor.rounds[name] >= 3, f"three rounds of {name}", 90.0)
        assert floor.tasks == {FIRST: {"pick_and_place"}, SECOND: {"pick_and_place_carefully"}}
        careful = {c.component: c.in_time for c in floor.status[SECOND].components}
        assert set(careful) == {"system1", "system2", "safety", "monitor"}
        assert careful["system2"] >= 1, "it plans"
        assert careful["safety"] >= 1, "and asks whether it is safe"
        rviz.connect()
        rviz.until(lambda: {f"/{FIRST}", f"/{SECOND}", "/"} <= set(rviz.markers), "one panel for both")
        rviz.until(lambda: "system2" in rviz.text(f"{SECOND}/lights"), "the lights of the second")
        assert "system2" not in rviz.text(f"{FIRST}/lights")
        (panel,) = panels(cell)
        panel.kill()
        floor.until(lambda: panels(cell) not in ([], [panel]), "the panel to be started again")
        for name in (FIRST, SECOND):
            before = floor.status[name]
            floor.until(lambda name=name, old=before: floor.status[name] is not old, f"{name} to be alive")
        assert cell.poll() is None, (tmp_path / "log").read_text()[-2000:]
    finally:
        floor.close()
        rviz.close()
        rclpy.try_shutdown()
        cell.send_signal(signal.SIGINT)
        try:
            assert cell.wait(20) == 0
        finally:
            cell.kill()
            log.close()
