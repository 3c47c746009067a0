"""Well-behaved clients of both frontends and a native robot, in a separate process, and what is in time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from typing import Any

import numpy as np
import zmq
from websockets.exceptions import WebSocketException

from rosa_client import Robot, RobotError
from rosa_server.models.remote.arrays import Dialect, pack, unpack
from rosa_sim.children import forked
from rosa_sim.hostile.client_attacks import SEEN, Ports, line
from rosa_sim.hostile.robots import BUDGET_S, PERIOD_S, START_S, ServedRequests

GOOD = "127.0.0.9"  # their address: hostile clients have others
KINDS = ("openpi", "gr00t", "native")
LATEST_S = 10.0  # an answer that has not come by then does not come


class OpenpiClient:
    """Connects again where it was cut off."""

    def __init__(self, port: int) -> None:
        self._port, self._line = port, self._connected(port)

    @staticmethod
    def _connected(port: int) -> Any:
        made = line(port, GOOD)
        made.recv(LATEST_S)
        return made

    def ask(self) -> bool:
        try:
            self._line.send(pack(dict(SEEN), Dialect.OPENPI))
            answer = self._line.recv(LATEST_S)
        except (OSError, WebSocketException):
            answer = ""
        if isinstance(answer, bytes):
            return True
        with contextlib.suppress(OSError, WebSocketException):
            self._line.close()
            self._line = self._connected(self._port)
        return False

    def close(self) -> None:
        self._line.close()


class Gr00tClient:
    """A REQ socket, in N1.5's dialect."""

    def __init__(self, port: int) -> None:
        self._port, self._socket = port, self._connected(port)

    @staticmethod
    def _connected(port: int) -> Any:
        made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
        made.linger = 0
        made.connect(f"tcp://{GOOD}:0;127.0.0.1:{port}")
        return made

    def ask(self) -> bool:
        data = {
            "video.ego": np.zeros((1, 8, 8, 3), np.uint8),
            "state.arm": np.zeros((1, 7), np.float32),
            "state.hand": np.full((1, 1), 0.25, np.float32),
            "annotation.task": ["pick"],
        }
        self._socket.send(pack({"endpoint": "get_action", "data": data}, Dialect.NPY))
        if not self._socket.poll(LATEST_S * 1000):
            self._socket.close()
            self._socket = self._connected(self._port)
            return False
        return "error" not in unpack(self._socket.recv())[0]

    def close(self) -> None:
        self._socket.close()


class NativeRobot:
    def __init__(self, endpoint: str) -> None:
        self._robot = Robot(endpoint, "pick", deadline_ms=BUDGET_S * 1000, encoding="rgb8")

    def ask(self) -> bool:
        seen = {
            "front": np.zeros((8, 8, 3), np.uint8),
            "joint_position": np.zeros(7),
            "gripper_width": [0.02],
        }
        try:
            self._robot.infer(seen)
        except RobotError:
            return False
        return True

    def close(self) -> None:
        self._robot.close()


def ask_well(endpoint: str, ports: Ports, ready: Event, stop: Event, pipe: Any) -> None:
    """Until `stop`, each asks five times a second; then sends (asked, in time) of each through `pipe`."""
    makers: dict[str, Callable[[], Any]] = {
        "openpi": lambda: OpenpiClient(ports["openpi"]),
        "gr00t": lambda: Gr00tClient(ports["gr00t"]),
        "native": lambda: NativeRobot(endpoint),
    }
    counts = {kind: ServedRequests() for kind in KINDS}
    welcomed = {kind: threading.Event() for kind in KINDS}

    def run(number: int, kind: str) -> None:
        client = makers[kind]()
        while not client.ask() and not stop.is_set():
            time.sleep(PERIOD_S)
        welcomed[kind].set()
        ready.wait(START_S)
        due_s = time.monotonic() + PERIOD_S * number / len(KINDS)
        while not stop.is_set():
            time.sleep(max(0.0, due_s - time.monotonic()))
            began_s = time.monotonic()
            answered = client.ask()
            counts[kind].asked += 1
            counts[kind].in_time += answered and time.monotonic() - began_s <= BUDGET_S
            due_s = max(due_s + PERIOD_S, time.monotonic())
        client.close()

    threads = [threading.Thread(target=run, args=item) for item in enumerate(KINDS)]
    for thread in threads:
        thread.start()
    if all(one.wait(START_S) for one in welcomed.values()):
        ready.set()
    stop.wait()
    for thread in threads:
        thread.join(LATEST_S + 1)
    pipe.send({kind: (served.asked, served.in_time) for kind, served in counts.items()})


@contextlib.contextmanager
def asking_well(endpoint: str, ports: Ports) -> Iterator[dict[str, ServedRequests]]:
    """They work while this runs; what is yielded is filled in on leaving."""
    context = forked()
    ready, stop = context.Event(), context.Event()
    ours, theirs = context.Pipe()
    process = context.Process(target=ask_well, args=(endpoint, ports, ready, stop, theirs), daemon=True)
    process.start()
    served = {kind: ServedRequests() for kind in KINDS}
    try:
        if not ready.wait(START_S):
            raise RuntimeError("the well-behaved clients were not answered")
        yield served
        stop.set()
        for kind, (asked, in_time) in (ours.recv() if ours.poll(2 * LATEST_S) else {}).items():
            served[kind].asked, served[kind].in_time = asked, in_time
    finally:
        stop.set()
        process.join(LATEST_S)
        process.kill()
