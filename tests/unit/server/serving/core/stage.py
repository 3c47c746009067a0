"""A serving core on a stage: a small factory, robots and workers that do what a test tells them, and a record."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np

from rosa_contract.config.factory import parse_factory
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_server.plan.admission import AdmissionControl
from rosa_server.plan.placement import Placement
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.queueing.actions import Action, Cancel, Dispatch, Kill, Note, Reply, Say

FACTORY = """
server_cluster: {num_servers: 8}
robot_fleet: [{task: pick, num_robots: 8}]
pick:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: policy, slo_ms: 300}
    safety: {model: guard, slo_ms: 500, freq_hz: 2}
    monitor: {model: guard, slo_ms: 2000, freq_hz: 1}
gateway: {queue_per_model: QUEUE}
"""
IMAGES = {"front": (4, 6)}
STATE = {"joint_position": 3}
CAMERAS = {"front": m.CameraInfo(height=4, width=6, encoding="rgb8")}
FRONT = EncodedImage("rgb8", 4, 6, bytes(72))


def hello(robot: str = "r1", **changes: Any) -> m.Hello:
    return m.Hello(**{"robot_id": robot, "task": "pick", "cameras": CAMERAS, "state": STATE, **changes})


def request(
    request_id: int = 0, component: str = "system1", budget_ms: float = 300.0, **changes: Any
) -> m.Request:
    fields: dict[str, Any] = {
        "state": {"joint_position": np.zeros(3, np.float32)},
        "images": {"front": FRONT} if component == "system1" else {},
    }
    return m.Request(request_id, component, budget_ms, **{**fields, **changes})


class Stage:
    """Drives a core and remembers what it decided."""

    def __init__(
        self,
        queue: int = 100,
        factory: str = FACTORY,
        placement: Placement | None = None,
        admission: AdmissionControl | None = None,
    ) -> None:
        numbers = itertools.count()
        parsed = parse_factory(factory.replace("QUEUE", str(queue)))
        self.core = ServingCore(parsed, placement, admission, new_token=lambda: f"token{next(numbers)}")
        self.tokens: dict[str, str] = {}  # robot -> from its last welcome
        self.now_s = 100.0
        self.answers: list[Reply] = []
        self.said: list[Say] = []
        self.dispatched: list[Dispatch] = []
        self.cancelled: list[Cancel] = []  # what workers were told
        self.killed: list[Kill] = []
        self.notes: list[Note] = []
        self.held: dict[str, list[Dispatch]] = {}  # worker -> what it has not answered
        self.decode_ms = 0.0  # ms of CPU time that the pictures of each request take

    def settle(self) -> list[Action]:
        """Tick once and sort what comes out."""
        self.core.tick(self.now_s)
        actions = self.core.actions()
        for action in actions:
            if isinstance(action, Reply):
                self.answers.append(action)
            elif isinstance(action, Say):
                self.said.append(action)
                if isinstance(action.message, m.Welcome):
                    session = self.core.sessions.get(action.connection)
                    assert session is not None, "only robots that are here are told anything"
                    self.tokens[session.robot_id] = action.message.token
            elif isinstance(action, Dispatch):
                self.dispatched.append(action)
                self.held.setdefault(action.worker_id, []).append(action)
            elif isinstance(action, Cancel):
                self.cancelled.append(action)
            elif isinstance(action, Note):
                self.notes.append(action)
            else:
                self.killed.append(action)
        return actions

    def worker(
        self,
        worker_id: str,
        model: str = "policy",
        max_batch: int = 4,
        at_once: int = 1,
        epoch: int | None = None,
    ) -> None:
        """`epoch`: in which it was started; none: in that of now."""
        needs = (IMAGES, STATE) if model == "policy" else ({}, {})
        epoch = self.core.router.placement.epoch if epoch is None else epoch
        self.core.on_ready(
            self.now_s, m.WorkerReady(worker_id, model, max_batch, *needs, at_once, epoch=epoch)
        )
        self.settle()

    def open(self, *robots: str) -> Stage:
        """One worker per model, and these robots welcomed. A robot's connection is its name in bytes."""
        self.worker("p1")
        self.worker("g1", "guard")
        for robot in robots or ("r1",):
            self.core.on_robot(self.now_s, robot.encode(), hello(robot))
        self.settle()
        return self

    def send(
        self, robot: str = "r1", request_id: int = 0, component: str = "system1", budget_ms: float = 300.0
    ) -> None:
        self.send_as(robot.encode(), request(request_id, component, budget_ms))

    def send_as(self, connection: bytes, message: m.Request) -> None:
        frames = codec.encode(message)
        self.core.on_request(self.now_s, connection, codec.read_header(frames), frames)
        self.settle()

    def cancel(self, robot: str, request_id: int) -> None:
        self.core.on_robot(self.now_s, robot.encode(), m.Cancel(request_id))
        self.settle()

    def finish(
        self,
        worker_id: str,
        inference_ms: float = 10.0,
        errors: list[tuple[str, str]] | None = None,
        epoch: int | None = None,
    ) -> None:
        """The worker answers the oldest batch that it holds. `epoch`: what it says of itself; none: the truth."""
        batch = self.held[worker_id].pop(0)
        tickets = [call.ticket for call in batch.calls]
        errors = errors or [("", "")] * len(tickets)
        decode_ms = [self.decode_ms] * len(tickets) if self.decode_ms else []
        outputs = [b"output"] * len(tickets)
        if epoch is None:
            known = self.core.pool.get(worker_id)
            epoch = known.epoch if known is not None else self.core.router.placement.epoch
        done = m.Executed(
            batch.batch_id, tickets, inference_ms, errors, outputs, decode_ms=decode_ms, epoch=epoch
        )
        self.core.on_executed(self.now_s, worker_id, done)
        self.settle()

    def greet(self, robot: str, task: str = "pick") -> m.Welcome | m.Refused:
        """A robot says hello. Its connection is its name in bytes."""
        self.core.on_robot(self.now_s, robot.encode(), hello(robot, task=task))
        before = len(self.said)
        self.settle()
        answer = next(say.message for say in self.said[before:] if say.connection == robot.encode())
        assert isinstance(answer, m.Welcome | m.Refused)
        return answer

    def welcome(self, robot: str, rates_hz: dict[str, float] | None = None) -> m.Welcome:
        """What a robot of the task `pick` that is here has been told last."""
        models = self.core.router.models_of("pick")
        cameras = {component: ("front",) if model == "policy" else () for component, model in models.items()}
        return m.Welcome(
            models, rates_hz or {}, cameras, self.tokens[robot], cancels=True, tasks=True, status_hz=1.0
        )

    def leave(self, robot: str) -> None:
        self.core.on_robot(self.now_s, robot.encode(), m.Bye())
        self.settle()

    def lose(self, worker_id: str) -> None:
        self.held.pop(worker_id, None)
        self.core.on_lost(self.now_s, worker_id, "ended by SIGKILL")
        self.settle()

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.settle()

    def statuses(self) -> list[tuple[str, int, str]]:
        """(robot, request id, status) in the order of the answers."""
        return [(a.call.robot_id, a.call.request_id, a.status) for a in self.answers]

    def refusals(self) -> list[str]:
        return [say.message.cause for say in self.said if isinstance(say.message, m.Refused)]

    def count(self) -> Counter[str]:
        return Counter(answer.status for answer in self.answers)
