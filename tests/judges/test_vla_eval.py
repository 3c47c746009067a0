"""vla-eval (PyPI) judges Meta-World's experts in its own process and behind ROSA: the same episodes succeed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rosa_sim.ports import free_port
from tests.judges.expert import STATE
from tests.system.frontends.clients import metrics
from tests.system.server_harness import PATIENCE_S, ROOT, Server, serving

EPISODES, MAX_STEPS = 4, 150  # of each task
RUN_S = 400.0
BENCHMARK = f"""
render: cpu
server: {{timeout: 120}}
benchmarks:
  - benchmark: "tests.judges.metaworld_tasks:MetaWorld"
    name: metaworld
    episodes_per_task: {EPISODES}
    max_steps: {MAX_STEPS}
    recording: {{record_step: false, record_video: false}}
"""
VLA_EVAL = [sys.executable, "-c", "from vla_eval.cli.main import main; main()"]
PREDICTS, ROSA = "tests/judges/in_process.py", "integrations/vla_eval/rosa_model_server.py"


@dataclass(frozen=True)
class Judged:
    steps: dict[tuple[str, int], int]  # of each episode that succeeded
    step_ms: float  # from one action to the next, of an environment


def started(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.open("ab") as out:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(PATIENCE_S)


@contextmanager
def model_server(folder: Path, script: str, *options: str) -> Iterator[str]:
    """vla-eval's own server with one of its model servers; its address."""
    port, log = free_port(), folder / "model_server.log"
    process = started([sys.executable, script, "--address", f"127.0.0.1:{port}", *options], log)
    try:
        until_s = time.monotonic() + PATIENCE_S
        while "listening" not in log.read_text().lower() and "serving" not in log.read_text().lower():
            assert process.poll() is None and time.monotonic() < until_s, log.read_text()
            time.sleep(0.2)
        yield f"ws://127.0.0.1:{port}"
    finally:
        ended(process)


def judged(folder: Path, address: str, at_once: int) -> Judged:
    """`vla-eval run` with so many environments, each a process of its own, and `vla-eval export`."""
    config, log = folder / "eval.yaml", folder / "eval.log"
    config.write_text(BENCHMARK)
    run = [
        *VLA_EVAL,
        "run",
        "-c",
        str(config),
        "--server-url",
        address,
        "--output-dir",
        str(folder),
        "--eval-id",
        "judged",
    ]
    crowd = [
        started([*run, "--shard-id", str(number), "--num-shards", str(at_once)], log)
        for number in range(at_once)
    ]
    try:
        until_s = time.monotonic() + RUN_S
        for one in crowd:
            assert one.wait(max(1.0, until_s - time.monotonic())) == 0, log.read_text()[-3000:]
    finally:
        for one in crowd:
            ended(one)
    export = started([*VLA_EVAL, "export", str(folder / "recording-judged.sqlite"), "-o", str(folder)], log)
    assert export.wait(RUN_S) == 0, log.read_text()[-3000:]
    told = json.loads((folder / "metaworld_aggregate.json").read_text())
    episodes = [(task["task"], one) for task in told["tasks"] for one in task["episodes"]]
    assert len(episodes) == 2 * EPISODES and not any("failure_reason" in one for _, one in episodes), episodes
    steps = {(task, one["episode_id"]): one["steps"] for task, one in episodes if one["metrics"]["success"]}
    spent_s = sum(one["elapsed_sec"] for _, one in episodes)
    return Judged(steps, 1000 * spent_s / sum(one["steps"] for _, one in episodes))


@pytest.fixture(scope="module")
def rosa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("rosa")
    with serving(folder, backend="tests.judges.expert:ExpertBackend", options={}) as one:
        yield one


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Judged]:
    found = {}
    for at_once in (1, 8):
        folder = tmp_path_factory.mktemp(f"in_process_{at_once}")
        with model_server(folder, PREDICTS) as address:
            found[at_once] = judged(folder, address, at_once)
    assert len(found[1].steps) >= EPISODES, found[1]  # experts succeed, or there is nothing to compare
    return found


@pytest.mark.parametrize("at_once", [1, 8])
def test_as_many_episodes_succeed_through_rosa_as_in_process(
    tmp_path: Path, rosa: Server, in_process: dict[int, Judged], at_once: int
) -> None:
    batches = 'rosa_batch_size_count{model="policy"}'
    before = metrics(rosa).get(batches, 0)
    options = ["--args.server", rosa.endpoint, "--args.task", "pick", "--args.deadline_ms", "20000"]
    with model_server(tmp_path, ROSA, *options, "--args.state", json.dumps({"state": STATE})) as address:
        through = judged(tmp_path, address, at_once)
    own = in_process[at_once]
    print(
        f"\n{at_once} environments: {len(through.steps)} of {2 * EPISODES} succeed through ROSA, {len(own.steps)} in"
        f" process; {through.step_ms:.0f} ms a step through ROSA, {own.step_ms:.0f} in process"
    )
    assert through.steps == own.steps == in_process[1].steps  # the same episodes, after as many steps
    asked = sum(through.steps.values())
    ran = metrics(rosa)[batches] - before
    assert ran == asked if at_once == 1 else ran < asked / 2  # why it is faster: batches of two and more
