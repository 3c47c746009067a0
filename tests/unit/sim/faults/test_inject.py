"""What an injector finds out by itself: which process is which, and whether the server is whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq

from rosa_client.bringup.graph import Robot
from rosa_client.bringup.supervisor import BringupError
from rosa_client.drivers.arms import ArmState
from rosa_client.drivers.arms.echo import EchoArm
from rosa_contract.config.robot import load_robot
from rosa_contract.wire import codec
from rosa_contract.wire.messages import HealthQuery, HealthReport
from rosa_sim.faults.arm import FaultyArm
from rosa_sim.faults.cell import CellError, set_up
from rosa_sim.faults.inject import WORKER_MODULE, Health, command, processes, worker_pid
from rosa_sim.faults.relay import remaps
from rosa_sim.faults.switch import Switch, turn
from rosa_sim.faults.table import ARM, CLOCK, SENSORS, WORKER
from tests.unit.client.sent import sent

ROOT = Path(__file__).parents[4]
ROBOT = Robot(
    config=str(ROOT / "configs" / "pick_place.yaml"), robot=str(ROOT / "configs" / "robots" / "panda.yaml")
)


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A child whose command line looks like that of a worker of `policy`."""
    words = ["-c", "import time; time.sleep(60)", WORKER_MODULE, "--spec", json.dumps({"model": "policy"})]
    process = subprocess.Popen([sys.executable, *words])
    until_s = time.monotonic() + 10
    while WORKER_MODULE not in command(process.pid) and time.monotonic() < until_s:
        time.sleep(0.01)  # the kernel shows the command line a moment after it runs
    yield process
    process.kill()
    process.wait()


def test_the_worker_of_a_model_is_found_among_the_servers_children(worker: subprocess.Popen[bytes]) -> None:
    assert worker_pid(os.getpid(), "policy") == worker.pid
    with pytest.raises(BringupError, match=rf"no worker of planner .*workers are {worker.pid}"):
        worker_pid(os.getpid(), "planner")


def test_a_process_that_was_killed_has_no_command_line_even_before_it_is_waited_for(
    worker: subprocess.Popen[bytes],
) -> None:
    assert WORKER_MODULE in command(worker.pid)
    worker.kill()
    until_s = time.monotonic() + 10
    while command(worker.pid) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert command(worker.pid) == []
    assert (worker.pid, []) in processes(os.getpid()), "a zombie is still a child"


def test_a_server_is_whole_when_it_says_so_and_not_before() -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as gateway:
        port = gateway.bind_to_random_port("tcp://127.0.0.1")
        health = Health(f"tcp://127.0.0.1:{port}")
        try:
            assert not health.ready(), "it has not answered yet"
            for ready in (False, True):
                assert answered(gateway, health, ready) is ready
            health.forget()
            assert not health.ready(), "what was heard before does not count"
        finally:
            health.close()


def answered(gateway: Any, health: Health, ready: bool) -> bool:
    """What `health` says once the gateway has answered its last question with `ready`."""
    until_s = time.monotonic() + 10
    while health.ready() is not ready and time.monotonic() < until_s:
        if gateway.poll(20):
            connection, *frames = gateway.recv_multipart()
            assert isinstance(codec.decode(frames), HealthQuery)
            gateway.send_multipart([connection, *codec.encode(HealthReport(ready, {}, {}, []))])
        time.sleep(0.02)
    return health.ready()


def test_a_failing_arm_stays_until_its_node_knows_that_it_can_move_again(tmp_path: Path) -> None:
    spec = load_robot(ROBOT.robot)
    switch = tmp_path / "arm.json"
    arm = FaultyArm(EchoArm(spec, 0), Switch(switch))

    def go(shift_rad: float) -> ArmState:
        arm.track(sent(np.array(spec.home_rad) + shift_rad))
        return arm.read()

    assert go(0.1).fault == ""
    turn(switch, fault="a brake")
    assert go(0.2).fault == "a brake"
    stuck = go(0.3)
    assert stuck.q_rad == pytest.approx(np.array(spec.home_rad) + 0.2)
    turn(switch)
    freed = go(0.4)
    assert freed.fault == ""
    assert freed.q_rad == pytest.approx(stuck.q_rad), "the node hears of it first"
    assert go(0.5).q_rad == pytest.approx(np.array(spec.home_rad) + 0.5)


def test_places_are_put_between_the_products_nodes_and_the_model_is_wrapped(tmp_path: Path) -> None:
    made = set_up(ROBOT, {WORKER, SENSORS, ARM, CLOCK}, tmp_path)
    assert made.robot.use_sim_time
    text = Path(made.robot.config).read_text()
    assert "FaultyBackend" in text
    assert "inner: flow_policy" in text
    assert text.count("FaultyBackend") == 1, "only System 1's model is hit"
    assert set(remaps(made.spec)) == {
        "joint_states",
        "front/image_raw/compressed",
        "wrist/image_raw/compressed",
    }
    with pytest.raises(CellError, match="places: expected some of"):
        set_up(ROBOT, {"kitchen"}, tmp_path)


def test_without_places_nothing_is_changed(tmp_path: Path) -> None:
    assert set_up(ROBOT, set(), tmp_path / "faults").robot == ROBOT
    assert not (tmp_path / "faults").exists()
