"""openpi's own client, GR00T's protocol in its three dialects and native robots, on one worker: one batch for all.

One of the native robots is a program with the Python client, the other the nodes of a ROS 2 robot, which replays a
picture.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
import rclpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy

from rosa_client import Answer, Robot
from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Robot as RosRobot
from tests.system.frontends.clients import JOINTS_DEG, OPENPI, metrics, observation, with_frontends
from tests.system.frontends.gr00t_clients import ONE_CAMERA, PolicyClient, flat, nested
from tests.system.operator.place import Floor, begin
from tests.system.replayed import robot_file
from tests.system.server_harness import PATIENCE_S, Server

# The client opens its connection in a way that newer versions of websockets advise against.
pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")
LATENCY_MS = 1000.0  # of a batch: long enough that six calls arrive while one runs, also on a slow machine
ROS = "panda0"  # the ROS 2 robot's name
ANSWERED = 'rosa_requests_total{component="system1",status="ok"}'
Served = tuple[Server, dict[str, int]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with with_frontends(
        tmp_path_factory.mktemp("served"), {"latency_ms": LATENCY_MS}, openpi=OPENPI, gr00t=ONE_CAMERA
    ) as it:
        yield it


# Of the clients' robots, in rad, which tells them apart: the emulated model answers where a robot stands.
JOINTS = {"n1.5": 0.15, "n1.6": 0.16, "n1.7": 0.17, "openpi": np.deg2rad(JOINTS_DEG[0]), "native": 0.3}


@pytest.fixture(scope="module")
def floor(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    """Where the ROS 2 robot's own topics are heard. Its arm, camera and runtime are nodes in processes of their own."""
    server, _ = served
    folder = tmp_path_factory.mktemp("robot")
    robot = RosRobot(
        config=str(server.config),
        robot=str(robot_file(folder, cameras={"front": {"width": 8, "height": 8, "encoding": "rgb8"}})),
        gateway=server.endpoint,
        driver="replay",
        source=str(folder),
        namespace=ROS,
    )
    with Bringup([robot], logs=folder / "logs"):
        begin()
        it = Floor((ROS,))
        try:
            yield it
        finally:
            it.close()
            rclpy.try_shutdown()


class Clients:
    """One of each but the ROS 2 robot.

    `asking`: what asks for one, and answers the first joint of its action in rad.
    """

    def __init__(self, served: Served, closing: ExitStack) -> None:
        server, ports = served
        self.openpi = WebsocketClientPolicy("127.0.0.1", ports["openpi"])
        closing.callback(self.openpi._ws.close)
        self.gr00t = {name: PolicyClient(ports["gr00t"], name) for name in ("n1.5", "n1.6", "n1.7")}
        for one in self.gr00t.values():
            closing.callback(one.close)
        self.native = closing.enter_context(Robot(server.endpoint, "pick", name="native", deadline_ms=20_000))
        self.first = closing.enter_context(Robot(server.endpoint, "pick", name="first", deadline_ms=20_000))
        self.batch_size = 0  # of the native one's last call

    def asking(self) -> dict[str, Callable[[], float]]:
        return {
            "openpi": lambda: float(np.deg2rad(self.openpi.infer(observation())["actions"][0, 0])),
            "n1.5": lambda: float(
                self.gr00t["n1.5"].get_action(flat(0, JOINTS["n1.5"], 1))["action.arm"][0, 0]
            ),
            "n1.6": lambda: float(
                self.gr00t["n1.6"].get_action(nested(1, JOINTS["n1.6"], 1))["arm"][0, 0, 0]
            ),
            "n1.7": lambda: float(
                self.gr00t["n1.7"].get_action(nested(1, JOINTS["n1.7"], 1))["arm"][0, 0, 0]
            ),
            "native": self.ask_native,
        }

    def ask_native(self) -> float:
        answer = asked(self.native, JOINTS["native"])
        self.batch_size = answer.batch_size
        return float(answer.actions[0, 0])


def asked(robot: Robot, joint: float) -> Answer:
    picture, arm = np.zeros((8, 8, 3), np.uint8), np.zeros(7)
    arm[0] = joint
    return robot.infer({"front": picture, "joint_position": arm, "gripper_width": np.zeros(1)})


def counted(server: Server, name: str) -> float:
    """A sample of the metrics page, which may come a moment after the answer that it is about."""
    until_s = time.monotonic() + PATIENCE_S
    while (found := metrics(server).get(name)) is None:
        assert time.monotonic() < until_s, name
        time.sleep(0.05)
    return found


def test_clients_of_all_protocols_share_one_batch_and_each_has_its_deadline_counted(
    served: Served, floor: Floor
) -> None:
    server, _ = served
    with ExitStack() as closing:
        clients = Clients(served, closing)
        pool = closing.enter_context(ThreadPoolExecutor(6))
        asking, until_s, alone_size = clients.asking(), time.monotonic() + 2 * PATIENCE_S, 0
        floor.start(ROS, "pick")
        # The ROS 2 robot asks again a little after each answer. Just after one, somebody else keeps the worker busy, so
        # that all others have asked when it is free; whatever came in between, this is done until it was so.
        while (clients.batch_size, alone_size) != (len(asking) + 1, 1):
            assert time.monotonic() < until_s, (clients.batch_size, alone_size)
            answered = metrics(server).get(ANSWERED, 0)
            floor.until(lambda before=answered: metrics(server).get(ANSWERED, 0) > before, f"{ROS} to ask")
            before = metrics(server)["rosa_messages_total"]
            alone = pool.submit(asked, clients.first, 0.0)
            while metrics(server)["rosa_messages_total"] == before and not alone.done():
                time.sleep(0.01)
            calls = {name: pool.submit(ask) for name, ask in asking.items()}
            for name, call in calls.items():  # to each its own, whoever else was in the batch
                assert call.result() == pytest.approx(JOINTS[name], abs=1e-5), name
            alone_size = alone.result().batch_size
        # Seven robots were there, and one of them was alone: the batch of six was one of each other.
        for robot in (ROS, "native", "openpi-1.1", "gr00t-1.1", "gr00t-1.2", "gr00t-1.3"):
            margin = f'rosa_deadline_margin_ratio{{component="system1",robot="{robot}"}}'
            assert 0.0 < counted(server, margin) <= 1.0, robot
        assert metrics(server)['rosa_frontend_clients{frontend="gr00t"}'] == 3
        missed = 'rosa_requests_total{component="system1",status="expired"}'
        assert metrics(server).get(missed, 0) == 0
        floor.until(lambda: floor.rounds[ROS] >= 2, f"{ROS} to complete a round with its answers")
        assert clients.gr00t["n1.5"].get_modality_config()["video"]["modality_keys"] == ["video.ego"]
        for dialect in ("n1.6", "n1.7"):
            assert clients.gr00t[dialect].get_modality_config()["video"]["modality_keys"] == ["ego"]
