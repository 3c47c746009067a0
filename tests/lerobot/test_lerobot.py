"""LeRobot's own commands with `--policy.type=rosa`, in LeRobot's environment: `make test-lerobot`.

LEROBOT_PYTHON is the interpreter of an environment that has LeRobot and integrations/lerobot.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.system.server_harness import ROOT, Server, serving

PYTHON = os.environ.get("LEROBOT_PYTHON", "")
COMMAND_S = 300.0  # loading LeRobot takes half a minute on a busy machine
OPTIONS = {
    "images": {"front": [16, 16]},
    "state": {"joint_position": 7, "gripper_width": 1},
    "horizon": 4,
    "latency_ms": 100.0,
}
MAPPING = ["--policy.state={joint_position: 7, gripper_width: 1}", "--policy.joint_unit=deg"]
pytestmark = pytest.mark.skipif(not PYTHON, reason="LEROBOT_PYTHON is not set; `make test-lerobot` does it")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), options=OPTIONS) as one:
        yield one


def lerobot(folder: Path, server: Server, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    """One of LeRobot's commands, which has `standing.py`'s environment and robot besides its own."""
    policy = ["--policy.type=rosa", f"--policy.server={server.endpoint}", "--policy.task=pick", *MAPPING]
    # Nothing of the development environment but ROSA itself; nothing is fetched.
    told = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    told |= {
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    call = [
        PYTHON,
        str(ROOT / "tests/lerobot/standing.py"),
        command,
        *policy,
        "--policy.deadline_ms=20000",
        *options,
    ]
    return subprocess.run(call, env=told, cwd=folder, capture_output=True, text=True, timeout=COMMAND_S)


@cache
def version() -> tuple[int, ...]:
    """Of LeRobot."""
    ask = "import importlib.metadata as m; print(m.version('lerobot'))"
    told = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True, timeout=COMMAND_S, check=True)
    return tuple(int(part) for part in told.stdout.strip().split(".")[:2])


def only_from(*first: int) -> None:
    if version() < first:
        pytest.skip(f"LeRobot {version()} has no lerobot-rollout")


@pytest.mark.parametrize("environments", [1, 4])
def test_lerobot_eval_succeeds_with_the_servers_actions(
    tmp_path: Path, server: Server, environments: int
) -> None:
    done = lerobot(
        tmp_path,
        server,
        "lerobot_eval",
        "--env.type=standing",
        "--policy.images={observation.image: front}",
        "--eval.n_episodes=4",
        f"--eval.batch_size={environments}",
        "--eval.use_async_envs=false",
        "--output_dir=out",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "out" / "eval_info.json").read_text())
    assert told["overall"]["pc_success"] == 100.0, told["overall"]


def test_a_refusal_of_the_server_ends_lerobots_command_with_its_cause(tmp_path: Path, server: Server) -> None:
    done = lerobot(
        tmp_path,
        server,
        "lerobot_eval",
        "--env.type=standing",
        "--policy.images={observation.image: fornt}",
        "--eval.n_episodes=1",
        "--eval.batch_size=1",
        "--output_dir=out",
    )
    assert done.returncode != 0
    assert "RobotError" in done.stderr and "fornt" in done.stderr, done.stderr[-3000:]


def test_lerobot_record_records_what_the_server_lets_the_robot_do(tmp_path: Path, server: Server) -> None:
    if version() >= (0, 5):
        pytest.skip("LeRobot took policies out of lerobot-record; lerobot-rollout does it")
    done = lerobot(
        tmp_path,
        server,
        "lerobot_record",
        "--robot.type=standing_robot",
        "--policy.images={top: front}",
        "--dataset.repo_id=rosa/eval_standing",
        f"--dataset.root={tmp_path / 'dataset'}",
        "--dataset.single_task=stay",
        "--dataset.num_episodes=1",
        "--dataset.episode_time_s=2",
        "--dataset.reset_time_s=0",
        "--dataset.fps=10",
        "--dataset.vcodec=h264",
        "--dataset.push_to_hub=false",
        "--play_sounds=false",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "dataset" / "meta" / "info.json").read_text())
    assert told["total_episodes"] == 1 and told["total_frames"] > 0


def rollout(folder: Path, server: Server, *options: str) -> tuple[int, int]:
    """`lerobot-rollout` for some seconds; how many actions the robot took, and how many calls had an overlap."""
    done = lerobot(
        folder,
        server,
        "lerobot_rollout",
        "--robot.type=standing_robot",
        "--policy.images={top: front}",
        "--task=stay",
        "--fps=10",
        "--play_sounds=false",
        *options,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = re.search(r"standing: (\d+) actions, (\d+) overlaps", done.stdout)
    assert told is not None, done.stdout[-3000:] + done.stderr[-3000:]
    return int(told[1]), int(told[2])


def test_lerobot_rollout_plays_the_servers_actions(tmp_path: Path, server: Server) -> None:
    only_from(0, 5)
    actions, overlaps = rollout(tmp_path, server, "--duration=4")
    assert actions > 0 and overlaps == 0


def test_with_rtc_what_is_left_of_a_chunk_and_the_delay_go_to_the_server(
    tmp_path: Path, server: Server
) -> None:
    only_from(0, 5)
    actions, overlaps = rollout(
        tmp_path,
        server,
        "--duration=6",
        "--inference.type=rtc",
        "--inference.queue_threshold=2",
        "--policy.step_s=0.1",
    )
    assert actions > 0 and overlaps > 0


def test_lerobot_rollout_records_episodes(tmp_path: Path, server: Server) -> None:
    only_from(0, 5)
    actions, _ = rollout(
        tmp_path,
        server,
        "--strategy.type=episodic",
        "--dataset.repo_id=rosa/rollout_standing",
        "--dataset.no_stamp=true",
        f"--dataset.root={tmp_path / 'dataset'}",
        "--dataset.single_task=stay",
        "--dataset.num_episodes=1",
        "--dataset.episode_time_s=2",
        "--dataset.reset_time_s=0",
        "--dataset.fps=10",
        "--dataset.rgb_encoder.vcodec=h264",
        "--dataset.push_to_hub=false",
    )
    told = json.loads((tmp_path / "dataset" / "meta" / "info.json").read_text())
    assert actions > 0 and told["total_episodes"] == 1 and told["total_frames"] > 0


def test_a_refusal_of_the_server_ends_lerobot_rollout_with_its_cause(tmp_path: Path, server: Server) -> None:
    only_from(0, 5)
    done = lerobot(
        tmp_path,
        server,
        "lerobot_rollout",
        "--robot.type=standing_robot",
        "--policy.images={top: fornt}",
        "--task=stay",
        "--fps=10",
        "--duration=30",
        "--play_sounds=false",
    )
    assert done.returncode != 0
    assert "RobotError" in done.stderr and "fornt" in done.stderr, done.stderr[-3000:]
