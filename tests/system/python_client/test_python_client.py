"""The Python client at a real server: blocking and asyncio, many robots in one batch, deadlines, a server that
restarts, keys, and no ROS."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rosa_client import ActionQueue, AsyncRobot, DeadlineMissed, GroupQueue, Robot, RobotError, RobotGroup
from rosa_contract.wire.overlap import Overlap
from rosa_server.serving.edge.access import make_keys
from tests.system.server_harness import EMULATED, PATIENCE_S, Server, serving

SEEN = {"front": np.zeros((8, 8, 3), np.uint8), "joint_position": np.zeros(7, np.float32)}
ENOUGH_MS = 20_000.0  # for any answer of a server that runs, on a busy machine


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = {**EMULATED, "latency_ms": 100.0, "horizon": 3}
    with serving(tmp_path_factory.mktemp("server"), options=options) as one:
        yield one


def test_chunks_and_single_actions(server: Server) -> None:
    with Robot(server.endpoint, "pick", name="alone", deadline_ms=ENOUGH_MS) as robot:
        chunk = robot.infer(SEEN, prompt="pick the cube")
        assert chunk.actions.shape == (3, 8) and chunk.batch_size == 1
        queue = ActionQueue(robot, steps=2)
        first = [queue.next(SEEN).shape for _ in range(2)]
        chunk = queue.chunk
        assert first == [(8,), (8,)] and queue.next(SEEN).shape == (8,) and queue.chunk is not chunk


def test_a_missed_deadline_is_an_error_and_the_next_call_goes_on(server: Server) -> None:
    with Robot(server.endpoint, "pick", deadline_ms=ENOUGH_MS) as robot:
        robot.infer(SEEN)
        with pytest.raises(DeadlineMissed):
            robot.infer(SEEN, deadline_ms=20)  # the model takes 100
        assert robot.infer(SEEN).actions.shape == (3, 8)


TOOL = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: pick, num_robots: 4}}]
pick:
  pipeline: {{action_period_ms: 400}}
  components: {{system1: {{model: policy, slo_ms: 300}}}}
models:
  policy:
    backend: emulated
    options: {{images: {{front: [8, 8]}}, state: {{joint_position: 7}}, horizon: 3, dof: 7}}
    adapter:
      actions:
        columns: {{actions: [x, y, z, a, b, c, grip]}}
        parts:
          - {{to: tool_position, take: [x, y, z], mode: step_delta}}
          - {{to: tool_rotation, take: [a, b, c], mode: step_delta}}
          - {{to: gripper, take: [grip], gripper: open_fraction}}
        resolved_by: robot
gateway: {{bind: "tcp://127.0.0.1:{port}", metrics_port: {metrics_port}}}
"""


def test_a_model_that_moves_the_tool_asks_who_resolves_it(tmp_path: Path) -> None:
    """A robot that carries out its space gets it as it is; any other is refused when it says hello."""
    seen = {**SEEN, "gripper_width": np.array([0.05], np.float32)}
    with serving(tmp_path, factory=TOOL) as server:
        with (
            Robot(server.endpoint, "pick", deadline_ms=ENOUGH_MS) as robot,
            pytest.raises(RobotError) as error,
        ):
            robot.infer(seen)
        assert error.value.cause == "wrong_actions"
        assert "answers tool_step_delta; the robot carries out only joint positions" in str(error.value)
        with Robot(server.endpoint, "pick", deadline_ms=ENOUGH_MS, spaces=("tool_step_delta",)) as robot:
            answer = robot.infer(seen)
    assert "tool_step_delta" in answer.arrays and answer.actions.shape == (3, 7) and answer.steps == 3
    with pytest.raises(ValueError, match="did you mean 'tool_pose'"):
        Robot("tcp://127.0.0.1:1", "pick", spaces=("tool_pse",))


def test_refusals_come_with_their_causes(server: Server) -> None:
    with Robot(server.endpoint, "pick", deadline_ms=ENOUGH_MS) as robot:
        robot.infer(SEEN)
        with pytest.raises(RobotError) as error:
            robot.infer({"front": SEEN["front"]})
        assert error.value.cause == "state_missing"
    with (
        Robot(server.endpoint, "pikc", connect_within_s=600.0) as robot,
        pytest.raises(RobotError) as error,
    ):
        robot.infer(SEEN)
    assert error.value.cause == "unknown_task" and "did you mean 'pick'" in str(error.value)


def test_many_robots_of_one_program_share_a_batch(server: Server) -> None:
    async def run() -> None:
        robots = [AsyncRobot(server.endpoint, "pick", deadline_ms=ENOUGH_MS) for _ in range(8)]
        try:
            until_s, sizes = time.monotonic() + PATIENCE_S, [0]
            while max(sizes) < 4:  # on a busy machine the others ask only when the first is answered
                assert time.monotonic() < until_s, sizes
                answers = await asyncio.gather(*(robot.infer(SEEN) for robot in robots))
                assert len(answers) == 8
                sizes = [answer.batch_size for answer in answers]
        finally:
            for robot in robots:
                robot.close()

    asyncio.run(run())


def test_a_group_of_robots_asks_at_once_and_goes_on_after_an_error(server: Server) -> None:
    with RobotGroup(server.endpoint, "pick", 8, deadline_ms=ENOUGH_MS) as group:
        until_s, sizes = time.monotonic() + PATIENCE_S, [0]
        while max(sizes) < 4:
            assert time.monotonic() < until_s, sizes
            answers = group.infer(dict.fromkeys(range(8), SEEN), prompts={3: "the red one"})
            assert sorted(answers) == [*range(8)]
            sizes = [answer.batch_size for answer in answers.values()]
        with pytest.raises(RobotError) as error:
            group.infer({0: SEEN, 5: {"front": SEEN["front"]}})
        assert error.value.cause == "state_missing"
        queue = GroupQueue(group, steps=2)
        assert [queue.next([SEEN] * 8).shape for _ in range(3)] == [(8, 8)] * 3
    group.close()
    with pytest.raises(RobotError) as error:
        group.infer({0: SEEN})
    assert error.value.cause == "closed"


def test_a_chunk_joins_what_the_robot_plays_meanwhile(server: Server) -> None:
    plays = Overlap(np.full((3, 8), 0.25, np.float32), frozen=2, step_s=0.05)
    with Robot(server.endpoint, "pick", deadline_ms=ENOUGH_MS) as robot:
        assert not robot.infer(SEEN).actions.any()  # the emulated model stands still
        assert (robot.infer(SEEN, overlap=plays).actions[:2] == 0.25).all()


def test_a_task_that_is_cancelled_leaves_the_robot_usable(server: Server) -> None:
    async def run() -> None:
        async with AsyncRobot(server.endpoint, "pick", deadline_ms=ENOUGH_MS) as robot:
            await robot.infer(SEEN)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await robot.infer(SEEN)
            assert (await robot.infer(SEEN)).actions.shape == (3, 8)

    asyncio.run(run())


def test_a_robot_comes_back_by_itself_when_its_server_does(tmp_path: Path) -> None:
    with serving(tmp_path) as own, Robot(own.endpoint, "pick", name="back", deadline_ms=ENOUGH_MS) as robot:
        robot.infer(SEEN)
        own.stop()
        with pytest.raises(RobotError):
            robot.infer(SEEN, deadline_ms=200)
        own.start()
        until_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                assert robot.infer(SEEN).actions.shape == (16, 8)
                return
            except RobotError:
                assert time.monotonic() < until_s


def test_keys(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", "panda0")
    with serving(tmp_path, arguments=["--keys", str(tmp_path / "keys")]) as own:
        with Robot(
            own.endpoint, "pick", name="panda0", keys=tmp_path / "keys", deadline_ms=ENOUGH_MS
        ) as robot:
            assert robot.infer(SEEN).actions.shape == (16, 8)
        with Robot(own.endpoint, "pick", connect_within_s=1.0) as robot, pytest.raises(RobotError) as error:
            robot.infer(SEEN)
        assert error.value.cause in ("mismatch", "hung_up", "no_answer")


def test_it_needs_no_ros() -> None:
    script = """
import sys
sys.modules.update(dict.fromkeys(("rclpy", "rosa_interfaces", "ament_index_python")))  # importing one raises
from rosa_client import ActionQueue, AsyncRobot, Robot
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"torch", "ortools", "prometheus_client", "rosa_server", "rosa_sim"}))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.stdout == "[]\n", ended.stderr


def test_the_player_of_the_page_plays_a_chunk() -> None:
    page = (Path(__file__).parents[3] / "docs" / "python_client.md").read_text()
    block = next(block for block in page.split("```python\n") if "ChunkPlayer" in block).partition("```")[0]
    start = np.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.8])
    chunk = SimpleNamespace(actions=np.tile(np.append(start + 0.01, 0.04), (8, 1)))
    names = {"q_rad": start, "gripper_m": 0.04, "now_s": 0.0, "chunk": chunk}
    exec(compile(block, "docs/python_client.md", "exec"), names)
    assert names["refusal"] is None
    moved = names["setpoint"].q_rad - start
    assert (moved > 0).all() and (moved < 0.01).all()
