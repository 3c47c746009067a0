"""openpi's own client, GR00T's protocol in its three dialects and a native robot, on one worker: one batch for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
from openpi_client.websocket_client_policy import WebsocketClientPolicy

from rosa_client import Answer, Robot
from tests.system.frontends.clients import JOINTS_DEG, OPENPI, metrics, observation, with_frontends
from tests.system.frontends.gr00t_clients import ONE_CAMERA, PolicyClient, flat, nested
from tests.system.server_harness import PATIENCE_S, Server

# The client opens its connection in a way that newer versions of websockets advise against.
pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")
LATENCY_MS = 1000.0  # of a batch: long enough that five calls arrive while one runs, also on a slow machine
Served = tuple[Server, dict[str, int]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with with_frontends(
        tmp_path_factory.mktemp("served"), {"latency_ms": LATENCY_MS}, openpi=OPENPI, gr00t=ONE_CAMERA
    ) as it:
        yield it


# Of the clients' robots, in rad, which tells them apart: the emulated model answers where a robot stands.
JOINTS = {"n1.5": 0.15, "n1.6": 0.16, "n1.7": 0.17, "openpi": np.deg2rad(JOINTS_DEG[0]), "native": 0.3}


class Clients:
    """One of each. `asking`: what asks for one, and answers the first joint of its action in rad."""

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


def test_clients_of_all_protocols_share_one_batch_and_each_has_its_deadline_counted(served: Served) -> None:
    server, _ = served
    with ExitStack() as closing:
        clients = Clients(served, closing)
        pool = closing.enter_context(ThreadPoolExecutor(6))
        asking, until_s = clients.asking(), time.monotonic() + PATIENCE_S
        while clients.batch_size != len(asking):
            assert time.monotonic() < until_s, clients.batch_size
            before = metrics(server)["rosa_messages_total"]
            alone = pool.submit(asked, clients.first, 0.0)
            while metrics(server)["rosa_messages_total"] == before and not alone.done():
                time.sleep(0.01)
            calls = {name: pool.submit(ask) for name, ask in asking.items()}
            for name, call in calls.items():  # to each its own, whoever else was in the batch
                assert call.result() == pytest.approx(JOINTS[name], abs=1e-5), name
            if alone.result().batch_size > 1:  # then not all of the five were in one
                clients.batch_size = 0
        # Six robots were there, and the sixth was alone: the batch of five was one of each.
        for robot in ("native", "openpi-1.1", "gr00t-1.1", "gr00t-1.2", "gr00t-1.3"):
            margin = f'rosa_deadline_margin_ratio{{component="system1",robot="{robot}"}}'
            assert 0.0 < counted(server, margin) <= 1.0, robot
        assert metrics(server)['rosa_frontend_clients{frontend="gr00t"}'] == 3
        missed = 'rosa_requests_total{component="system1",status="expired"}'
        assert metrics(server).get(missed, 0) == 0
        assert clients.gr00t["n1.5"].get_modality_config()["video"]["modality_keys"] == ["video.ego"]
        for dialect in ("n1.6", "n1.7"):
            assert clients.gr00t[dialect].get_modality_config()["video"]["modality_keys"] == ["ego"]
