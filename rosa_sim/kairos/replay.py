"""Replays tasks against the server's own core under a simulated clock: sessions, queue, policy, batches and tiers are
production's (`rosa_server/simulator/`), and robots say of their tasks what production's robots say, as messages.

As in the paper, robots call asynchronously, before they have finished what they do, wherever the call is answered.
There are no deadlines: budgets are the longest that the contract knows, and a task's end-to-end latency counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random

from rosa_contract.config.factory import Factory, parse_factory
from rosa_contract.wire.codec import packed_progress, request_header
from rosa_contract.wire.messages import OK, Bye, Hello, Response, TaskEnds, ToRobot
from rosa_contract.wire.progress import DONE, Progress
from rosa_server.plan.placement import Placement, Replica, cloud_name
from rosa_server.serving.core.queueing.actions import Dispatch
from rosa_server.serving.core.queueing.order import Order
from rosa_server.simulator.servers import HEARD, Serving, SimulatedServers
from rosa_server.timing.batches import BatchProfile
from rosa_sim.kairos.traces import Task

BUDGET_MS = 600_000.0
HELLO_S = 5.0  # a robot that waits is not taken for one that has left
FACTORY = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: work, num_robots: 1}}]
work:
  pipeline: {{action_period_ms: 1000}}
  components: {{system1: {{model: policy, slo_ms: 600000}}}}
gateway: {{{gateway}}}
"""
NO_FRAMES = (b"",)
CLOUD = cloud_name("policy")
OrderOf = Callable[["Replay"], Order]


@dataclass(frozen=True)
class Tier:
    """One server. `link_s` is the way to it and also the way back, in seconds."""

    profile: Mapping[int, float]  # ms by batch size
    max_batch: int
    link_s: float = 0.0
    held: bool = (
        False  # it is sent the next batch when the last one has been answered, and runs nothing meanwhile
    )


@dataclass
class Run:
    """One task on a robot."""

    task: Task
    robot: str
    number: int
    began_s: float
    round: int = 0
    acts_until_s: float | None = None
    sent_s: float = 0.0
    waited_s: float = 0.0  # without anything to do
    longest_s: float = 0.0  # of these waits

    @property
    def connection(self) -> bytes:
        return self.robot.encode()


@dataclass
class Outcome:
    """What came of a replay. Latencies are in seconds, from a task's first request to its last action."""

    latencies_s: list[float] = field(default_factory=list)  # in the order of ending
    stalls_s: list[float] = field(default_factory=list)  # how long each task's robot had nothing to do
    longest_wait_s: float = 0.0  # of any call, from when its robot had nothing to do
    calls: int = 0
    in_cloud: int = 0
    end_s: float = 0.0


def poisson(tasks: Sequence[Task], rate_hz: float, seed: int) -> list[tuple[float, Task]]:
    """Each task with its arrival time."""
    random, now_s = Random(f"arrivals/{seed}"), 0.0
    arrivals = []
    for task in tasks:
        now_s += random.expovariate(rate_hz)
        arrivals.append((now_s, task))
    return arrivals


class Replay(SimulatedServers):
    """Robots around one server, or two. A replay is played once."""

    def __init__(
        self,
        order: str | OrderOf,
        edge: Tier,
        cloud: Tier | None = None,
        ahead_s: float = 0.0,
        settings: str = "",
        known: object = None,
    ) -> None:
        """`order`: of `gateway.order`, or a policy that no factory file knows. `settings`: more of `gateway`.
        `ahead_s`: how long before the end of its actions a robot makes the next call. `known`: what the server has
        learned before, as it would have kept it."""
        named = f"order: {order}, {settings}" if isinstance(order, str) else settings
        super().__init__(_serving(parse_factory(FACTORY.format(gateway=named)), edge, cloud))
        self._ahead_s = ahead_s
        self._runs: dict[bytes, Run] = {}
        self._waiting: list[Task] = []  # for a free robot
        self._robots = self._to_come = 0
        self._found = Outcome()
        held = [tier for tier in (edge, cloud) if tier is not None and tier.held]
        for worker in self.core.pool.of("policy") if held else ():
            if worker.link_s:
                worker.credits = 1  # production never holds a server in the cloud
        if known is not None:
            self.core.lengths.learn_from(known)
        if not isinstance(order, str):
            self.core.rank_by(order(self))

    def arriving(self, arrivals: Sequence[tuple[float, Task]]) -> Outcome:
        """Every task has its own robot, from its arrival on."""
        self._to_come = len(arrivals)
        for when_s, task in arrivals:
            self._at(when_s, HEARD, self._comes, task)
        return self._play()

    def back_to_back(self, tasks: Sequence[Task], robots: int) -> Outcome:
        """`robots` robots do the tasks one after another, the first ones from within the first second."""
        self._waiting = list(reversed(tasks))
        self._to_come = min(robots, len(tasks))
        for robot in range(self._to_come):
            self._at(robot / robots, HEARD, self._comes, self._waiting.pop())
        return self._play()

    def runs(self) -> Mapping[bytes, Run]:
        """The tasks under way, by connection; for policies that know more than a server can."""
        return self._runs

    def _play(self) -> Outcome:
        self.over = not self._to_come
        self.run(inf)
        self._found.end_s = self.now_s
        return self._found

    # -- robots --------------------------------------------------------------------------------------------------------

    def _comes(self, now_s: float, task: Task) -> None:
        self._to_come -= 1
        self._robots += 1
        robot = f"r{self._robots}"
        self.core.on_robot(now_s, robot.encode(), Hello(robot, "work", {}, {}))
        self._begins(now_s, Run(task, robot, 1, now_s))
        self._at(now_s + HELLO_S, HEARD, self._still_there, robot.encode())

    def _still_there(self, now_s: float, connection: bytes) -> None:
        run = self._runs.get(connection)
        if run is not None:
            self.core.on_robot(now_s, connection, Hello(run.robot, "work", {}, {}))
            self._at(now_s + HELLO_S, HEARD, self._still_there, connection)

    def _begins(self, now_s: float, run: Run) -> None:
        self._runs[run.connection] = run
        self._send(now_s, run)

    def _send(self, now_s: float, run: Run) -> None:
        acts_ms = 0.0 if run.acts_until_s is None else max(0.0, run.acts_until_s - now_s) * 1000
        progress = packed_progress(Progress(run.number, run.round, acts_ms, run.task.kind))
        header = request_header(self._found.calls, "system1", BUDGET_MS) | {"progress": progress}
        run.sent_s = now_s
        self._found.calls += 1
        self.core.on_request(now_s, run.connection, header, NO_FRAMES)

    def _say(self, now_s: float, connection: bytes, message: ToRobot) -> None:
        run = self._runs.get(connection)
        if run is None or not isinstance(message, Response):
            return
        if message.status != OK:
            self._send(now_s, run)  # the longest budget is spent
            return
        free_s = run.sent_s if run.acts_until_s is None else max(run.acts_until_s, run.sent_s)
        waited_s = max(0.0, now_s - free_s)
        run.waited_s += waited_s
        run.longest_s = max(run.longest_s, waited_s)
        acts_from_s = now_s if run.acts_until_s is None else max(now_s, run.acts_until_s)
        run.acts_until_s = acts_from_s + run.task.executions_s[run.round]
        run.round += 1
        if run.round == len(run.task.executions_s):
            self._at(run.acts_until_s, HEARD, self._ends, run)
        else:
            self._at(max(now_s, run.acts_until_s - self._ahead_s), HEARD, self._send, run)

    def _ends(self, now_s: float, run: Run) -> None:
        self.core.on_robot(now_s, run.connection, TaskEnds(run.number, DONE))
        del self._runs[run.connection]
        self._found.latencies_s.append(now_s - run.began_s)
        self._found.stalls_s.append(now_s - run.began_s - sum(run.task.executions_s))
        self._found.longest_wait_s = max(self._found.longest_wait_s, run.longest_s)
        if self._waiting:
            self._begins(now_s, Run(self._waiting.pop(), run.robot, run.number + 1, now_s))
        else:
            self.core.on_robot(now_s, run.connection, Bye())
            self.over = not (self._to_come or self._runs)

    def _dispatch(self, now_s: float, batch: Dispatch) -> None:
        if batch.worker_id.startswith(CLOUD):
            self._found.in_cloud += len(batch.calls)
        super()._dispatch(now_s, batch)


def _serving(factory: Factory, edge: Tier, cloud: Tier | None) -> Serving:
    pool = "policy" if cloud is not None else ""
    tiers = {"policy": edge} if cloud is None else {"policy": edge, CLOUD: cloud}
    replicas = {
        name: Replica(
            name,
            "policy",
            name,
            batch=tier.max_batch,
            pool=pool,
            service_ms=tier.profile,
            link_ms=tier.link_s * 1000,
        )
        for name, tier in tiers.items()
    }
    return Serving(
        factory, Placement(replicas), {name: BatchProfile(tier.profile) for name, tier in tiers.items()}
    )
