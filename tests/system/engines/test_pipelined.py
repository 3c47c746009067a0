"""Robots share one autoregressive model over real sockets, and each gets the actions that it would get alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_server.models.backend import ModelInput
from rosa_server.models.token_policy.backend import TokenPolicyBackend
from tests.system.server_harness import Robot, Server, robot, serving

ROBOTS = tuple(f"r{number}" for number in range(4))
FRAMES = 6
PROMPT = "pick up the cube"
CAMERAS = {name: m.CameraInfo(height=96, width=96, encoding="rgb8") for name in ("front", "wrist")}
STATE = {"joint_position": 7, "gripper_width": 1}
FACTORY = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: pick, num_robots: 4}}]
pick:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: tokens, slo_ms: 20000}}
models:
  tokens: {{backend: token_policy, options: {{engine: pipelined}}}}
gateway: {{bind: "tcp://127.0.0.1:{port}", metrics_port: {metrics_port}}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("pipelined"), factory=FACTORY) as running:
        yield running


@pytest.fixture(scope="module")
def alone() -> TokenPolicyBackend:
    """The same model without gateway, worker and engine."""
    backend = TokenPolicyBackend()
    backend.load()
    return backend


def seen(name: str, frame: int) -> ModelInput:
    """What this robot sees in this frame: noise, which no two frames share."""
    rng = np.random.default_rng([ROBOTS.index(name), frame])
    images = {camera: rng.integers(0, 256, (96, 96, 3), np.uint8) for camera in CAMERAS}
    state = {
        "joint_position": rng.uniform(-0.5, 0.5, 7).astype(np.float32),
        "gripper_width": np.array([0.04], np.float32),
    }
    return ModelInput("system1", PROMPT, images, state)


def send(one: Robot, frame: int, budget_ms: float = 20_000) -> None:
    look = seen(one.name, frame)
    images = {name: EncodedImage("rgb8", 96, 96, bytes(picture)) for name, picture in look.images.items()}
    one.request(frame, PROMPT, budget_ms, images=images, state=dict(look.state))


def acted(one: Robot, frames: int = FRAMES) -> dict[int, NDArray[np.float32]]:
    """Actions by frame, each asked for as soon as the one before is answered."""
    found = {}
    for frame in range(frames):
        send(one, frame)
        answer = one.answer()
        assert (answer.request_id, answer.status) == (frame, "ok"), answer
        assert answer.output is not None
        found[frame] = answer.output.arrays["actions"]
    return found


def check(name: str, actions: dict[int, NDArray[np.float32]], alone: TokenPolicyBackend) -> None:
    for frame, chunk in actions.items():
        expected = alone.infer([seen(name, frame)])[0].arrays["actions"]
        np.testing.assert_array_equal(chunk, expected, err_msg=f"{name}, frame {frame}")


def joined(server: Server, name: str) -> Robot:
    return Robot(server, name).join(cameras=CAMERAS, state=STATE)


def test_each_robot_gets_the_actions_it_would_get_alone(server: Server, alone: TokenPolicyBackend) -> None:
    robots = [joined(server, name) for name in ROBOTS]
    try:
        with ThreadPoolExecutor(len(robots)) as threads:
            found = list(threads.map(acted, robots))
    finally:
        for one in robots:
            one.close()
    for name, actions in zip(ROBOTS, found, strict=True):
        check(name, actions, alone)


def test_a_robot_that_is_late_or_gone_costs_the_others_nothing(
    server: Server, alone: TokenPolicyBackend
) -> None:
    """One asks with a budget that no pass keeps, one leaves with a frame inside: their slots are free again."""
    steady, gone = joined(server, ROBOTS[0]), joined(server, ROBOTS[1])
    try:
        with robot(server, ROBOTS[2]) as late, ThreadPoolExecutor(1) as threads:
            late.join(cameras=CAMERAS, state=STATE)
            running = threads.submit(acted, steady, 2 * FRAMES)
            statuses = []
            for frame in range(10):  # more than the engine has slots
                send(late, frame, budget_ms=5)
                statuses.append(late.answer().status)
                send(gone, frame)
                gone.close()
                gone = joined_again(server, ROBOTS[1])
            actions = running.result(120)
        check(ROBOTS[0], actions, alone)
        assert set(statuses) == {"expired"}, statuses
    finally:
        steady.close()
        gone.close()


def joined_again(server: Server, name: str) -> Robot:
    """The same robot on a new connection, as after a restart."""
    time.sleep(0.02)
    return joined(server, name)
