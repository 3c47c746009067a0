"""Ctrl-C at any moment of a node's life: it ends with status 0, without a traceback, and does not hang.

Fast DDS may (`rosa_client/ros/ending.py`): then the node's own limit or its supervisor ends it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rosa_client.executables import program
from tests.system.nodes.processes import (
    CONFIG,
    PANDA,
    PATIENCE_S,
    ROOT,
    Stuck,
    end,
    running,
    wait_for,
    wait_until_it_answers_signals,
)

pytestmark = pytest.mark.slow
TIMES = 40
AT_ONCE = 5
EARLY = 36  # stops, spread over the first second
LONGEST_S = 4.0  # a node starts in one to three seconds
IN_ROS = 1  # so many may be stuck in ROS itself: once in 1,000 and more, oftener while others are killed
NODES = ("camera_node", "arm_node", "camera_node", "runtime_node")
ARM = program("rosa_client.nodes.robot.arm_node")
DDS = str(Path(ROOT) / "configs" / "dds" / "fastdds.xml")


def stopped(turn: int) -> tuple[str, bool]:
    """Start one node, stop it somewhere between its first line of Python and its work.

    Returns what was wrong, if anything, and whether the node was stuck in ROS itself.
    """
    moment = random.Random(turn)
    node = NODES[turn % len(NODES)]
    number = moment.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM])
    with running(node, f"storm{turn}", PANDA, CONFIG, FASTDDS_DEFAULT_PROFILES_FILE=DDS) as process:
        wait_until_it_answers_signals(process)
        after_s = moment.uniform(0.0, LONGEST_S)
        time.sleep(after_s)
        try:
            end(process, number)
        except Exception as error:
            in_ros = isinstance(error, Stuck) and error.in_ros
            return f"{node} after {after_s:.2f} s, {number.name}: {error}", in_ros
    return "", False


def test_nodes_end_cleanly_whenever_they_are_stopped() -> None:
    with ThreadPoolExecutor(AT_ONCE) as lanes:
        wrong = [(text, in_ros) for text, in_ros in lanes.map(stopped, range(TIMES)) if text]
    stuck = [text for text, in_ros in wrong if in_ros]
    assert len(wrong) == len(stuck) <= IN_ROS, "\n".join(text for text, _ in wrong)


def test_a_node_whose_driver_does_not_come_back_at_work_ends_and_says_where() -> None:
    driver = "driver:=tests.system.nodes.slow_driver:StuckCameras"
    with running("camera_node", "stuck", PANDA, driver) as process:
        wait_for(process, "looking")
        with pytest.raises(Stuck, match="in never_comes_back") as stuck:
            end(process)
        assert process.returncode == 1, "by its own limit"
        assert not stuck.value.in_ros


def test_a_ctrl_c_in_the_first_second_of_a_node_prints_no_traceback() -> None:
    """From its first line on, before its packages are loaded, which takes a tenth of a second or more. Before that a
    signal is Python's own, and prints what Python prints."""

    def said(turn: int) -> str:
        with running(NODES[turn % len(NODES)], f"early{turn}", PANDA, CONFIG) as process:
            time.sleep(turn / EARLY)
            wait_until_it_answers_signals(process)
            process.send_signal(signal.SIGINT)
            text: str = process.communicate(timeout=PATIENCE_S)[0]
            return text

    with ThreadPoolExecutor(AT_ONCE) as lanes:
        heard = [text for text in lanes.map(said, range(EARLY)) if "Traceback" in text or "Interrupt" in text]
    assert not heard, f"{len(heard)} of {EARLY}, such as {heard[0]}"


@pytest.mark.parametrize("after_s", [0.02, 0.06, 0.1, 0.15])
def test_a_second_ctrl_c_does_not_break_the_clean_up(after_s: float) -> None:
    with running("camera_node", "twice", PANDA) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "cameras front" in line:
                break
        process.send_signal(signal.SIGINT)
        time.sleep(after_s)
        end(process)


def test_a_node_whose_driver_still_tries_to_connect_ends_too() -> None:
    driver = "driver:=tests.system.nodes.slow_driver:SlowCameras"
    with running("camera_node", "slow", PANDA, driver) as process:
        wait_for(process, "connecting")
        end(process)


@pytest.mark.parametrize(
    ("command", "at_work"),
    [
        ([*ARM, "--ros-args", "-r", "__ns:=/orphan", "-p", PANDA, "-p", "autostart:=true"], "holding"),
        ([sys.executable, "-m", "rosa_client.bringup.tied", "sleep", "600"], ""),
    ],
    ids=["a node", "another program"],
)
def test_what_a_launch_started_goes_with_it(command: list[str], at_work: str) -> None:
    """SIGTERM to `ros2 launch`, or its death, leaves no orphan: the kernel tells the process."""
    inner = (
        "import os, subprocess, sys, time; "
        f"p = subprocess.Popen({command!r},"
        " env={**os.environ, 'ROSA_PARENT': str(os.getpid())}); print(p.pid, flush=True); time.sleep(600)"
    )
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    launch = subprocess.Popen([sys.executable, "-c", inner], cwd=ROOT, stdout=pipe, stderr=both, text=True)
    assert launch.stdout is not None
    node = int(launch.stdout.readline())
    if at_work:
        wait_for(launch, at_work)
    end_s = time.monotonic() + PATIENCE_S
    while b"rosa_client.bringup.tied" in Path(f"/proc/{node}/cmdline").read_bytes():
        assert time.monotonic() < end_s
        time.sleep(0.02)
    launch.kill()
    launch.wait()
    launch.stdout.close()
    end_s = time.monotonic() + 15.0
    while Path(f"/proc/{node}").exists():
        if time.monotonic() > end_s:
            os.kill(node, signal.SIGKILL)
            raise AssertionError("the node outlived its launch")
        time.sleep(0.05)


def test_a_node_whose_launch_is_gone_before_it_starts_does_not_start() -> None:
    with running("arm_node", "late", PANDA, ROSA_PARENT="1") as process:
        said, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "holding" not in said
