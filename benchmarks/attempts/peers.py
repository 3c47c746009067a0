"""Findings 2 to 5: what a peer that is not a robot of ours does to a server and to an honest robot beside it."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgpack
import numpy as np
import psutil
import zmq

from attempts.attempt import Attempt, Checkout, Happened
from rosa_contract import codec
from rosa_contract import messages as m
from rosa_contract.errors import CodecError
from rosa_contract.images import EncodedImage
from rosa_sim.fuzz.honest import HELLO
from rosa_sim.fuzz.mutate import FRONT, summed
from rosa_sim.fuzz.run import server
from rosa_sim.fuzz.wire import MORE, Peer, frame, idle_connections, message

STRANGER = "127.0.0.2"
ASKED, EVERY_S, BUDGET_S = 20, 0.1, 0.3
LEAST = 18  # answers of those asked that an honest robot must get in time
MOST_MB = 150.0
ROBOTS, EACH, IDLE = 1000, 3, 1500
BOX_S = 15.0  # a server that has not done it by then does not do it
JOINTS = {"joint_position": np.zeros(7, np.float32)}


class Robot:
    """A bare client of the gateway."""

    def __init__(self, endpoint: str, name: str, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.name, self.token = name, ""
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)

    def receive(self, timeout_s: float) -> m.Message | None:
        if not self.socket.poll(int(timeout_s * 1000)):
            return None
        with contextlib.suppress(CodecError):
            return codec.decode(self.socket.recv_multipart())
        return None

    def hello(self) -> m.Message | None:
        self.socket.send_multipart(
            codec.encode(m.Hello(self.name, "pick", HELLO.cameras, HELLO.state, self.token))
        )
        answer = self.receive(BOX_S)
        if isinstance(answer, m.Welcome):
            self.token = answer.token
        return answer

    def send(self, number: int, **images: EncodedImage) -> None:
        request = m.Request(number, "system1", 300.0, "", JOINTS, {"front": FRONT, **images})
        self.socket.send_multipart(codec.encode(request))

    def in_time(self) -> int:
        """How many of so many requests are answered `ok` in time."""
        good, due_s = 0, time.monotonic()
        for number in range(1000, 1000 + ASKED):
            due_s += EVERY_S
            self.send(number)
            end_s = time.monotonic() + BUDGET_S
            while (left_s := end_s - time.monotonic()) > 0:
                answer = self.receive(left_s)
                if isinstance(answer, m.Response) and answer.request_id == number:
                    good += answer.status == m.OK
                    break
            time.sleep(max(0.0, due_s - time.monotonic()))
        return good


@dataclass
class Place:
    """A running server and an honest robot that it has welcomed."""

    endpoint: str
    process: psutil.Process
    log: Path
    context: zmq.Context[zmq.Socket[bytes]]
    robot: Robot

    def resident_mb(self) -> float:
        return float(self.process.memory_info().rss / 1e6) if self.process.is_running() else 0.0


@contextlib.contextmanager
def flooding(place: Place, data: bytes) -> Iterator[None]:
    """Somebody sends the same bytes for ever and comes back when cut off."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                peer = Peer(place.endpoint, STRANGER, timeout_s=1.0)
            except OSError:
                stop.wait(0.02)
                continue
            with contextlib.suppress(OSError):
                while not stop.is_set():
                    peer.send(data)
            peer.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def flood(data: bytes) -> Callable[[Place], Happened]:
    def tried(place: Place) -> Happened:
        before_mb = place.resident_mb()
        with flooding(place, data):
            time.sleep(0.5)
            good = place.robot.in_time()
            grown_mb = place.resident_mb() - before_mb
        return f"{good} of {ASKED} answers in time, {grown_mb:+.0f} MB", good >= LEAST and grown_mb < MOST_MB

    return tried


def idle(place: Place) -> Happened:
    connections = idle_connections("127.0.0.1", int(place.endpoint.rsplit(":", 1)[1]), IDLE)
    time.sleep(1.0)
    for worker in place.process.children():
        worker.kill()
    end_s = time.monotonic() + BOX_S
    good = 0
    newcomer = Robot(place.endpoint, "newcomer", place.context)
    while good < LEAST and time.monotonic() < end_s:
        if isinstance(newcomer.hello(), m.Welcome):
            good = newcomer.in_time()
        time.sleep(0.2)
    alive = place.process.is_running() and place.process.status() != psutil.STATUS_ZOMBIE
    ended = "ended" if "Traceback" not in place.log.read_text() else "ended with a traceback"
    for one in connections:
        one.close()
    newcomer.socket.close()
    words = f"server {'runs' if alive else ended}; a new robot gets {good} of {ASKED} answers in time"
    return words, alive and good >= LEAST


def unasked_camera(place: Place) -> Happened:
    extra = EncodedImage("rgb8", 3000, 3000, bytes(27_000_000))
    before_mb = place.resident_mb()
    for number in range(40):
        place.robot.send(number, back=extra)
    good, most_mb, end_s = 0, 0.0, time.monotonic() + 5.0
    while time.monotonic() < end_s:
        answer = place.robot.receive(0.2)
        good += isinstance(answer, m.Response) and answer.status == m.OK
        most_mb = max(most_mb, place.resident_mb() - before_mb)
    return f"{good} of 40 answered ok, {most_mb:+.0f} MB", good == 0 and most_mb < MOST_MB


def stolen_name(place: Place) -> Happened:
    time.sleep(3.2)
    thief = Robot(place.endpoint, "r1", place.context)
    answer = thief.hello()
    thief.socket.close()
    place.robot.hello()
    good = place.robot.in_time()
    refused = isinstance(answer, m.Refused)
    words = f"the other was {'refused' if refused else 'welcomed'}; the robot got {good} of {ASKED} answers in time"
    return words, refused and good >= LEAST


def half_open(place: Place) -> Happened:
    peers = [Peer(place.endpoint, STRANGER, greet=index % 2 == 0) for index in range(40)]
    began_s = time.monotonic()
    left = peers
    while left and time.monotonic() - began_s < BOX_S:
        left = [peer for peer in left if peer.is_open()]
        place.robot.hello()
        time.sleep(0.2)
    seconds = time.monotonic() - began_s
    for peer in peers:
        peer.close()
    return f"{len(left)} of 40 open after {seconds:.0f} s", not left


def many_robots(place: Place) -> Happened:
    robots = [Robot(place.endpoint, f"many{index}", place.context) for index in range(ROBOTS)]
    by_socket = {robot.socket: robot for robot in robots}
    poller = zmq.Poller()
    began_s = time.monotonic()
    for robot in robots:
        poller.register(robot.socket, zmq.POLLIN)
        hello = m.Hello(robot.name, "pick", HELLO.cameras, HELLO.state)
        robot.socket.send_multipart(codec.encode(hello))
    asked, good = dict.fromkeys(robots, 0), 0
    while good < ROBOTS * EACH and time.monotonic() - began_s < 4 * BOX_S:
        for one, _ in poller.poll(1000):
            robot = by_socket[one]
            answer = robot.receive(0.0)
            good += isinstance(answer, m.Response) and answer.status == m.OK
            if asked[robot] < EACH and isinstance(answer, m.Welcome | m.Response):
                asked[robot] += 1
                request = m.Request(asked[robot], "system1", 30_000.0, "", JOINTS, {"front": FRONT})
                one.send_multipart(codec.encode(request))
    seconds = time.monotonic() - began_s
    for robot in robots:
        robot.socket.close()
    return f"{good} of {ROBOTS * EACH} answers in {seconds:.1f} s", good == ROBOTS * EACH


PROMISE = f"an honest robot gets at least {LEAST} of {ASKED} answers in time, below {MOST_MB:.0f} MB more"


def served(tried: Callable[[Place], Happened], descriptors: int = 0) -> Callable[[Checkout], Happened]:
    """Against a server of its own, which may open so many descriptors; 0: as many as here."""

    def run(_: Checkout) -> Happened:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        context.set(zmq.MAX_SOCKETS, ROBOTS + 100)
        with tempfile.TemporaryDirectory(prefix="rosa-hostile-") as folder:
            with server(Path(folder), descriptors=descriptors) as (process, endpoint, _, log):
                robot = Robot(endpoint, "r1", context)
                robot.hello()
                happened = tried(Place(endpoint, psutil.Process(process.pid), log, context, robot))
                robot.socket.close()
            context.term()
        return happened

    return run


PEERS = (
    Attempt(
        2,
        f"{IDLE} idle connections with `ulimit -n 1024`, and a killed worker",
        "a new robot is served",
        served(idle, 1024),
    ),
    Attempt(2, "40 connections that never say hello", "none is open after 15 s", served(half_open)),
    Attempt(
        2,
        f"{ROBOTS} honest robots at once, {EACH} requests each",
        "every request is answered",
        served(many_robots),
    ),
    Attempt(
        3,
        "a header of 1 MB with a million empty maps, in a loop",
        PROMISE,
        served(flood(message([summed({"v": 1, "t": "health_query", "z": [{}] * 1_000_000})]))),
    ),
    Attempt(
        3,
        "a message of a million empty frames, in a loop",
        PROMISE,
        served(flood(frame(b"", MORE) * 1_000_000 + frame(b""))),
    ),
    Attempt(
        3,
        "nested lists, 60,000 deep, in a loop",
        PROMISE,
        served(flood(message([b"\x91" * 60_000 + msgpack.packb(1)]))),
    ),
    Attempt(
        4,
        "frames of 1 MB with more to follow, for ever",
        PROMISE,
        served(flood(frame(bytes(1 << 20), MORE))),
    ),
    Attempt(
        4,
        "40 requests with a camera of 27 MB that the model does not take",
        f"none is answered ok, below {MOST_MB:.0f} MB more",
        served(unasked_camera),
    ),
    Attempt(
        5,
        "hello under the name of a robot that was silent for 3.2 s",
        "refused; the robot is served",
        served(stolen_name),
    ),
)
