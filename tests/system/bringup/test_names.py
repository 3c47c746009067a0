"""A robot's name is taken once per ROS domain, and whoever comes second is told who has it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rosa_client.bringup.names import Names, NameTakenError
from rosa_client.nodes.base.environment import prepare_environment

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
HOLDER = """
import sys, time
from rosa_client.bringup.names import Names
names = Names()
names.take([sys.argv[1]], listen_s=0.0)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def dds() -> None:
    prepare_environment()


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[str]]:
    run = subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield run
    finally:
        run.send_signal(signal.SIGINT)
        try:
            run.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()


def wait_for(run: subprocess.Popen[str], words: str) -> None:
    assert run.stdout is not None
    for line in run.stdout:
        if words in line:
            return
    raise AssertionError(f"the process ended before it said {words!r}")


def refusal(name: str) -> str:
    names = Names()
    try:
        names.take([name])
    except NameTakenError as error:
        return str(error)
    names.release()
    return ""


def test_on_one_machine_the_second_is_refused_and_a_crash_frees_the_name() -> None:
    with process("-c", HOLDER, "r1") as holder:
        wait_for(holder, "held")
        assert f"host {socket.gethostname()}, process {holder.pid};" in refusal("/r1/")
        assert refusal("r2") == ""
        holder.kill()
        holder.wait()
        assert refusal("r1") == ""


def test_one_name_of_a_fleet_that_is_taken_leaves_the_others_free() -> None:
    names = Names()
    names.take(["r1"], listen_s=0.0)
    with pytest.raises(NameTakenError, match="'r1' is taken"):
        Names().take(["r0", "r1"], listen_s=0.0)
    others = Names()
    others.take(["r0"], listen_s=0.0)
    others.release()
    names.release()


def test_a_node_of_a_robot_holds_its_name_though_no_bring_up_here_knows_it() -> None:
    """As one on another machine, or one that a killed `ros2 launch` left."""
    node = ["-m", "rosa_client.nodes.robot.runtime_node", "--ros-args", "-r", "__ns:=/r3"]
    with process(*node) as other:
        end_s = time.monotonic() + PATIENCE_S
        while not (said := refusal("r3")):
            assert time.monotonic() < end_s
            assert other.poll() is None
        assert f"host {socket.gethostname()}, process {other.pid} (runtime_node);" in said
        other.kill()
        other.wait()
        assert refusal("r3") == "", "a crashed node does not stand in the way"


@pytest.mark.slow
def test_a_second_bring_up_refuses_at_once_and_the_first_goes_on() -> None:
    first_words = ["-m", "rosa_client.bringup", "namespace:=r4", "gateway:=tcp://127.0.0.1:1"]
    with process(*first_words) as first:
        wait_for(first, "running r4")
        for words in (first_words, ["-m", "rosa_sim.demo", "--namespace", "r4", "--no-video"]):
            second = subprocess.run(
                [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
            )
            assert second.returncode in (1, 2)
            said = second.stdout + second.stderr
            assert f"namespace 'r4' is taken on ROS domain {os.environ['ROS_DOMAIN_ID']}" in said
            assert f"process {first.pid}" in said
            assert "Traceback" not in said
        assert first.poll() is None
