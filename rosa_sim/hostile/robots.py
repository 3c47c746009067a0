"""Well-behaved robots over the real link, in a separate process, and how many of their requests are in time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

import numpy as np
import zmq

from rosa_client.connection.link import GatewayLink
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_sim.children import forked

PERIOD_S = 0.2
BUDGET_S = 0.3
START_S = 60.0
FRONT = EncodedImage("rgb8", 8, 8, bytes(8 * 8 * 3))
STATE = {"joint_position": np.zeros(7, np.float32)}


def hello_of(name: str) -> m.Hello:
    return m.Hello(
        name, "pick", {"front": m.CameraInfo(height=8, width=8, encoding="rgb8")}, {"joint_position": 7}
    )


def name_of(index: int) -> str:
    return f"honest{index}"


class HonestRobot:
    """Asks at its own phase; one request at a time."""

    def __init__(self, endpoint: str, name: str, keys: str, first_s: float) -> None:
        self.link = GatewayLink(endpoint, hello_of(name), keys)
        self.asked = self.in_time = 0
        self._due_s, self._number, self._waits_until_s = first_s, 0, 0.0

    def begin(self) -> None:
        """Count from now on."""
        self.asked, self.in_time, self._waits_until_s = 0, 0, 0.0

    def step(self, now_s: float) -> float:
        """Read answers and ask when it is time. Returns when it is next to be stepped."""
        for answer in self.link.poll(0.0, now_s):
            if answer.request_id == self._number and now_s < self._waits_until_s:
                self.in_time += answer.status == m.OK
                self._waits_until_s = 0.0
        if now_s >= self._due_s:
            self._due_s = max(self._due_s + PERIOD_S, now_s)
            self.asked += 1  # also while the server does not know it: then it is not served in time
            self._number += 1
            request = m.Request(self._number, "system1", BUDGET_S * 1000, "", STATE, {"front": FRONT})
            sent = self.link.ready and self.link.send(request, now_s)
            self._waits_until_s = now_s + BUDGET_S if sent else 0.0
        return self._due_s


@dataclass
class ServedRequests:
    """What became of their requests."""

    asked: int = 0
    in_time: int = 0

    @property
    def share(self) -> float:
        return self.in_time / max(1, self.asked)


def serve_well(
    endpoint: str, count: int, keys: str, first: int, ready: Event, stop: Event, pipe: Any
) -> None:
    """Until `stop`; then sends (asked, answered in time) of every robot through `pipe`."""
    began_s = time.monotonic()
    robots = [
        HonestRobot(endpoint, name_of(first + i), keys, began_s + PERIOD_S * i / count) for i in range(count)
    ]
    poller = zmq.Poller()
    for robot in robots:
        poller.register(robot.link.socket, zmq.POLLIN)
    while not stop.is_set():
        now_s = time.monotonic()
        due_s = min(robot.step(now_s) for robot in robots)
        if not ready.is_set() and all(robot.link.ready for robot in robots):
            for robot in robots:
                robot.begin()
            ready.set()
        poller.poll(max(0, int((due_s - time.monotonic()) * 1000)) + 1)
    for robot in robots:
        robot.link.close()
    pipe.send([(robot.asked, robot.in_time) for robot in robots])


@contextlib.contextmanager
def serving_well(endpoint: str, count: int, keys: str = "", first: int = 0) -> Iterator[ServedRequests]:
    """`count` of them work while this runs, named from number `first` on; what is yielded is filled in on leaving."""
    context = forked()
    ready, stop = context.Event(), context.Event()
    ours: Connection[Any, Any]
    ours, theirs = context.Pipe()
    process = context.Process(
        target=serve_well, args=(endpoint, count, keys, first, ready, stop, theirs), daemon=True
    )
    process.start()
    served = ServedRequests()
    try:
        if not ready.wait(START_S):
            raise RuntimeError("the well-behaved robots were not welcomed")
        yield served
        stop.set()
        for asked, in_time in ours.recv() if ours.poll(20) else []:
            served.asked += asked
            served.in_time += in_time
    finally:
        stop.set()
        process.join(10)
        process.kill()
