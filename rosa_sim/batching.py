"""One serving core, one worker and a closed loop of robots under a simulated clock: what a way of batching achieves.

Each robot calls System 1, acts for `ACTION_S`, and calls again; a call that missed its deadline is sent again at once
(`stop_and_resend`). Only the worker's time is made up, from a profile; half of the robots have each of the SLOs.
"""

from __future__ import annotations

import heapq
from itertools import count
from random import Random

from rosa_contract.config.factory import parse_factory
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.queueing.actions import Dispatch, Reply
from rosa_server.timing.batch_profile import BatchProfile

ACTION_S, JITTER = 0.2, 0.03
SLOS_MS = (200.0, 400.0)
FACTORY = """
server_cluster: {num_servers: 1}
robot_fleet: [{task: act, num_robots: 1}]
act:
  pipeline: {action_period_ms: 200}
  components: {system1: {model: policy, slo_ms: 400}}
"""


class BatchingLoop:
    """Robots, a worker and a clock around a serving core.

    `deadline_aware`: the server's dynamic batching up to `batch`; else a free worker takes what waits, up to `batch`.
    `padded`: whatever runs takes as long as a full batch, as with one CUDA Graph.
    """

    def __init__(
        self,
        robots: int,
        batch: int,
        profile: BatchProfile,
        deadline_aware: bool = True,
        padded: bool = False,
        seed: int = 0,
    ) -> None:
        replica = Replica("gpu0", "policy", "gpu0", batch=batch, deadline_aware=deadline_aware)
        slots = {f"act/{index}": {"system1": "gpu0"} for index in range(robots)}
        self._core = ServingCore(parse_factory(FACTORY), Placement({"gpu0": replica}, slots))
        self._padded_to = batch if padded else 0
        self._profile = profile
        self._random = Random(seed)
        self._events: list[tuple[float, int, str, object]] = []
        self._order = count()
        self._busy_until_s = 0.0
        self._sent: dict[int, tuple[int, float]] = {}  # request -> (robot, when)
        self._ids = count()
        self.latencies_ms: list[float] = []
        self.missed = 0
        self.batches: list[int] = []
        self._core.on_ready(0.0, m.WorkerReady("gpu0/0.1", "policy", 16, {}, {}))
        for robot in range(robots):
            self._core.on_robot(0.0, b"%d" % robot, m.Hello(f"r{robot}", "act", {}, {}))
            self._at(self._random.uniform(0.0, 0.4), "send", robot)
        self._core.actions()

    def run(self, seconds: float) -> None:
        """Simulate this long; then `latencies_ms` (of calls in time), `missed` and `batches` are filled."""
        now_s, tick_s = 0.0, 0.0
        while now_s < seconds:
            if self._events[0][0] <= tick_s:
                now_s, _, kind, what = heapq.heappop(self._events)
                if kind == "send" and isinstance(what, int):
                    self._send(now_s, what)
                elif isinstance(what, m.Executed):
                    self._core.on_executed(now_s, "gpu0/0.1", what)
            else:
                now_s = tick_s
            tick_s = max(self._core.tick(now_s), now_s + 1e-4)
            for action in self._core.actions():
                if isinstance(action, Dispatch):
                    self._work(now_s, action)
                elif isinstance(action, Reply):
                    self._answered(now_s, action)

    def _at(self, when_s: float, kind: str, what: object) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), kind, what))

    def _send(self, now_s: float, robot: int) -> None:
        request_id = next(self._ids)
        self._sent[request_id] = (robot, now_s)
        frames = codec.encode(m.Request(request_id, "system1", SLOS_MS[robot % 2]))
        self._core.on_request(now_s, b"%d" % robot, codec.read_header(frames), frames)

    def _work(self, now_s: float, dispatch: Dispatch) -> None:
        size = len(dispatch.calls)
        self.batches.append(size)
        took_s = self._profile.service_s(self._padded_to or size) * (1 + JITTER * self._random.gauss(0, 1))
        self._busy_until_s = max(self._busy_until_s, now_s) + took_s
        tickets = [call.ticket for call in dispatch.calls]
        done = m.Executed(dispatch.batch_id, tickets, took_s * 1000, [("", "")] * size, [b""] * size)
        self._at(self._busy_until_s, "done", done)

    def _answered(self, now_s: float, answer: Reply) -> None:
        robot, sent_s = self._sent.pop(answer.call.request_id)
        latency_ms = (now_s - sent_s) * 1000
        if answer.status == m.OK and latency_ms <= SLOS_MS[robot % 2]:
            self.latencies_ms.append(latency_ms)
            self._at(now_s + ACTION_S * (1 + JITTER * self._random.gauss(0, 1)), "send", robot)
        else:
            self.missed += 1
            self._at(now_s + 0.001, "send", robot)
