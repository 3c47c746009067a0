"""What the scheduler says of rounds whose inference overlaps execution is what the robot's own core does."""

from __future__ import annotations

import heapq
from math import inf

import numpy as np
import pytest

from rosa_client.connection.greeting import Greeting
from rosa_client.runtime.commands import Send
from rosa_contract.config.factory import parse_factory
from rosa_contract.config.robot import RobotSpec
from rosa_contract.wire.messages import OK, Hello, Output, Response
from rosa_server.scheduler.placement.servers import loop_rate_hz, overlapped_rate_hz
from rosa_server.scheduler.problem import StreamClass, problem_from
from rosa_sim.explore.cells import ROBOT as TWO_JOINTS
from rosa_sim.fleet.robot import VirtualRobot

FACTORY = """
server_cluster: {{num_servers: 2}}
robot_fleet: [{{task: pick, num_robots: 1}}]
pick:
  pipeline: {{action_period_ms: 400, execution: {execution}, planning: {planning}, system2_to_system1_call_ratio: 0.5}}
  components:
    system1: {{model: a, slo_ms: 3000}}
{system2}
"""
SYSTEM2 = "    system2: {model: b, slo_ms: 3000}"
ROBOT: RobotSpec = TWO_JOINTS
CHUNK = Output({"actions": np.zeros((40, 3), np.float32), "step_s": np.array([0.05], np.float32)})


class Counts:
    """Counts actions; nothing else matters."""

    acted_s: list[float]

    def __init__(self) -> None:
        self.acted_s = []

    def acted(self, robot: VirtualRobot, now_s: float) -> None:
        self.acted_s.append(now_s)

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def acts_hz(text: str, latencies_s: dict[str, float], actions: int = 60) -> float:
    """Actions per second of a robot whose calls always take as long."""
    task = parse_factory(text).tasks["pick"]
    link = Greeting("a server", Hello("robot", "pick", {}, {}))
    link.ready = True
    counts = Counts()
    robot = VirtualRobot("robot", task, ROBOT, link, counts)  # type: ignore[arg-type]  # counts what it needs
    answers: list[tuple[float, int, Send]] = []
    now_s = 0.0
    sends = robot.start(now_s)
    while len(counts.acted_s) < actions:
        for send in sends:
            assert isinstance(send, Send)
            heapq.heappush(answers, (now_s + latencies_s[send.component], send.request_id, send))
        now_s = min(robot.due_s, answers[0][0] if answers else inf)
        if answers and answers[0][0] <= now_s:
            send = heapq.heappop(answers)[2]
            output = CHUNK if send.component == "system1" else Output(text="go on")
            sends = robot.receive(Response(send.request_id, OK, output=output), now_s)
        else:
            sends = robot.tick(now_s)
    late = counts.acted_s[actions // 3 :]
    return (len(late) - 1) / (late[-1] - late[0])


@pytest.mark.parametrize("planning", ["in_turn", "ahead"])
@pytest.mark.parametrize("plan_s", [None, 0.1, 0.6])
@pytest.mark.parametrize("infer_s", [0.06, 0.2, 0.7])
def test_rounds_that_overlap_are_as_fast_as_the_scheduler_says(
    infer_s: float, plan_s: float | None, planning: str
) -> None:
    system2 = SYSTEM2 if plan_s is not None else ""
    text = FACTORY.format(execution="asynchronous", planning=planning, system2=system2)
    (cls,) = problem_from(parse_factory(text)).classes
    latencies_s = {"system1": infer_s, "system2": plan_s or 0.0}
    ms = {StreamClass("pick", name): 1000 * seconds for name, seconds in latencies_s.items()}
    expected_hz = overlapped_rate_hz(cls, ms)
    assert acts_hz(text, latencies_s) == pytest.approx(expected_hz, rel=0.06)
    assert expected_hz >= loop_rate_hz(cls, ms) * (1 - 1e-9), "what is planned for is a lower bound"
