"""`rosa run` against real robots: it ends as the task ends, and Ctrl-C ends the task."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Cell, Robot, robots_of
from rosa_sim.ports import free_port
from tests.system.examples.test_examples import code_of
from tests.system.replayed import robot_file

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
ROUND = re.compile(
    r"round [1-9]"
)  # a robot at work; of two states that follow closely only the later may be told
# The first robot's monitor says "done" after a second. The other has none: its task goes on until somebody
# ends it.
FACTORY = """
server_cluster: {{num_servers: 3, gpu_type: cpu}}
robot_fleet:
  - {{task: short, num_robots: 1}}
  - {{task: endless, num_robots: 1}}
short:
  pipeline: {{action_period_ms: 200}}
  components:
    system1: {{model: quick, slo_ms: 2000, fallback: stop_and_resend}}
    monitor: {{model: content, freq_hz: 2, slo_ms: 2000, confirmations: 3, fallback: stop_and_resend}}
endless:
  pipeline: {{action_period_ms: 200}}
  components:
    system1: {{model: quick, slo_ms: 2000, fallback: stop_and_resend}}
told:
  prompt: tidy up
  parameters: {{colour: blue}}
  pipeline: {{action_period_ms: 200}}
  components:
    system1: {{model: spy, slo_ms: 2000, fallback: stop_and_resend, prompt: "{{prompt}}, the {{colour}} one"}}
    monitor: {{model: content, freq_hz: 2, slo_ms: 2000, confirmations: 3, fallback: stop_and_resend}}
models:
  quick: {{backend: emulated, options: {{latency_ms: 5}}}}
  spy: {{backend: "spy:Spy"}}
  content: {{backend: emulated, options: {{latency_ms: 5, verdict: done}}}}
gateway: {{bind: "{endpoint}", metrics_port: 0}}
"""


SPY = """
from pathlib import Path

from rosa_server.models.emulated import EmulatedBackend

HEARD = Path(__file__).with_name("heard.txt")


class Spy(EmulatedBackend):
    def infer(self, batch):
        with HEARD.open("a") as file:
            file.writelines(one.prompt + chr(10) for one in batch if one.prompt)
        return super().infer(batch)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def robots(folder: Path) -> Iterator[Bringup]:
    """panda0 with the task `short`, panda1 with the task `endless`; pictures and arms are stand-ins.

    The arm of both is the driver of docs/add_a_robot.md.
    """
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    factory = folder / "factory.yaml"
    factory.write_text(FACTORY.format(endpoint=endpoint))
    (folder / "my_arm.py").write_text(code_of("add_a_robot.md", "my_arm.py"))
    (folder / "spy.py").write_text(SPY)
    robot = robot_file(folder, arm_driver="my_arm:MyArm", camera_driver="replay")
    given = Robot(config=str(factory), robot=str(robot), gateway=endpoint, source=str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
        bringup = Bringup(
            robots_of(given, Cell(fleet=True)), server=str(factory), logs=folder / "logs", last=True
        )
        with bringup:
            yield bringup


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rosa_server.cli", "run", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)


def run(*words: str) -> tuple[int, str, str]:
    """Exit status, standard output, standard error."""
    process = start(*words)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def begun(*words: str) -> subprocess.Popen[str]:
    """A task that has reached its first round."""
    process = start(*words)
    assert process.stdout is not None
    line = process.stdout.readline()
    while line and not ROUND.search(line):
        line = process.stdout.readline()
    assert line, f"the task ended before its first round: {process.communicate(timeout=PATIENCE_S)}"
    return process


def test_a_task_runs_to_its_end(robots: Bringup) -> None:
    status, out, err = run("short", "--robot", "panda0")
    assert status == 0, err
    assert re.search(f"panda0: attempt 1, {ROUND.pattern}", out)
    assert "done: the monitor says done" in out


def test_no_name_means_the_configured_task_and_json_is_for_machines(robots: Bringup) -> None:
    status, out, err = run("--robot", "panda0", "--json")
    assert status == 0, err
    assert json.loads(out)["outcome"] == "done"
    assert ROUND.search(err)


def test_ctrl_c_cancels_the_task_waits_for_its_end_and_leaves_the_robot_free(robots: Bringup) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        process = begun("endless", "--robot", "panda1")
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130, out + err
        assert "cancelling" in out
        assert "the client cancelled the task" in out, "the robot's own word"
    status, out, err = run("endless", "--robot", "panda1", "--timeout", "1")
    assert status == 1, err
    assert "the task was not done within its time" in out


def test_a_busy_robot_refuses_a_second_task_and_says_what_it_does(robots: Bringup) -> None:
    process = begun("endless", "--robot", "panda1")
    try:
        status, _, err = run("--robot", "panda1")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert status == 2
    assert "panda1 is busy: it runs 'endless'" in err


@pytest.fixture(scope="module")
def asked(robots: Bringup) -> dict[str, tuple[int, str, str]]:
    """What no robot begins a task for, asked side by side: each looks for robots for some seconds."""
    commands = {
        "another task": ("no_such_task", "--robot", "panda0"),
        "another robot": ("--robot", "panda7", "--wait", "6"),
        "no robot": (),
    }
    processes = {what: start(*words) for what, words in commands.items()}
    said = {what: process.communicate(timeout=PATIENCE_S) for what, process in processes.items()}
    return {what: (process.returncode, *said[what]) for what, process in processes.items()}


def test_a_task_of_another_name_is_refused(asked: dict[str, tuple[int, str, str]]) -> None:
    status, _, err = asked["another task"]
    assert status == 2
    assert "rejected the task 'no_such_task'" in err


def test_a_robot_that_is_not_there_is_named_with_those_that_are_and_the_domain(
    asked: dict[str, tuple[int, str, str]],
) -> None:
    status, _, err = asked["another robot"]
    assert status == 3
    assert "no robot 'panda7'; found: panda0, panda1" in err
    assert f"/panda7/run_task on ROS domain {os.environ['ROS_DOMAIN_ID']}" in err


def test_without_a_name_there_must_be_one_robot(asked: dict[str, tuple[int, str, str]]) -> None:
    status, _, err = asked["no robot"]
    assert status == 3
    assert "name one with --robot: panda0, panda1" in err


@dataclass
class Followed:
    """A command that follows the task of a robot, until it ends by itself."""

    process: subprocess.Popen[str]
    thread: threading.Thread
    said: tuple[str, str] = ("", "")
    ended_s: float = 0.0  # after the robot's death


@pytest.fixture(scope="module")
def dies(robots: Bringup) -> Followed:
    """panda1 dies at its task, and does not come back. DDS believes in it for a while."""
    process = begun("endless", "--robot", "panda1")
    os.kill(robots.supervisor.pid("panda1/runtime_node"), signal.SIGKILL)
    killed_s = time.monotonic()

    def follow() -> None:
        followed.said = process.communicate(timeout=PATIENCE_S)
        followed.ended_s = time.monotonic() - killed_s

    followed = Followed(process, threading.Thread(target=follow, daemon=True))
    followed.thread.start()
    return followed


@pytest.mark.usefixtures("dies")
def test_a_robot_changes_its_task_and_is_told_what_to_do_without_a_restart(
    robots: Bringup, folder: Path
) -> None:
    """While another one dies, and who follows that one finds out."""
    before, heard = robots.supervisor.pid("panda0/runtime_node"), folder / "heard.txt"
    told = ("--prompt", "take the cup", "--parameter", "colour=red")
    status, out, err = run("told", "--robot", "panda0", *told)
    assert status == 0, out + err
    assert set(heard.read_text().splitlines()) == {"take the cup, the red one"}
    heard.write_text("")
    status, out, err = run("--robot", "panda0")  # no name: the present task; no words: the file's
    assert status == 0, out + err
    assert set(heard.read_text().splitlines()) == {"tidy up, the blue one"}
    status, out, err = run("short", "--robot", "panda0", "--parameter", "colour=red")
    assert status == 2, "the task `short` has no such parameter"
    status, out, err = run("short", "--robot", "panda0")
    assert status == 0, out + err
    assert robots.supervisor.pid("panda0/runtime_node") == before


def test_a_robot_that_dies_ends_the_command(dies: Followed) -> None:
    dies.thread.join()
    out, err = dies.said
    assert dies.process.returncode == 3, out + err
    assert "nothing heard of panda1" in err
    assert dies.ended_s > 4.0, "a short silence is no end"
