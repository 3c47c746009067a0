"""The sorting cell as it is launched, with a stand-in that knows the truth for the model: plans become prompts, the
monitor's verdict on the rule ends the task, and the arm holds while a person reaches in."""

from __future__ import annotations

import time
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Robot
from rosa_client.recording.bag import read
from rosa_contract.config.factory import load_factory
from rosa_sim.cell.layout.hardware import SORT_PARTS
from rosa_sim.cell.layout.variation import Variation
from rosa_sim.cell.world import World
from rosa_sim.demo.arguments import FIRST_SEED
from rosa_sim.demo.episodes import episodes, stand_in
from rosa_sim.demo.judge import judge_of
from rosa_sim.ports import free_port
from rosa_sim.timeline.lanes import robots
from rosa_sim.training.data.words import read_plan, read_rule
from tests.system.domains import own_domain

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
NAMESPACE, TASK = "sorter", "sort_parts"
LONGEST_S = 400.0
MOVED_RAD = 0.01
BRAKES_S = 0.6  # from full speed, and until the arm node has heard of it


def factory_file(folder: Path) -> tuple[Path, str]:
    """The shipped factory file with the stand-in for its model, and a free port; returns the file and the endpoint."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    text = (ROOT / "configs" / "sort_parts.yaml").read_text()
    path = folder / "sort_parts.yaml"
    path.write_text(
        # What is tested is what happens, not how fast.
        text[: text.index("\nmodels:")].replace("slo_ms: 500", "slo_ms: 5000")
        + f"""
models:
  rosa/panda-vla:
    backend: tests.system.sort_parts.oracle:SortOracle
    options: {{namespace: {NAMESPACE}}}
gateway:
  bind: {endpoint}
  metrics_port: 0
"""
    )
    return path, endpoint


def seed_with_a_visitor() -> int:
    """One whose hand comes in early, while the first blocks are sorted, and stays for a while."""
    for seed in range(FIRST_SEED, FIRST_SEED + 200):
        hand = Variation.of(seed, SORT_PARTS).hand
        assert hand is not None
        if hand.start_s < 6.0 and hand.stay_s > 3.0:
            return seed
    raise AssertionError("nobody visits")


def test_three_blocks_are_sorted_by_a_rule_in_words_while_a_person_reaches_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the worker imports the stand-in
    path, endpoint = factory_file(tmp_path)
    task = load_factory(path).tasks[TASK]
    robot = Robot(
        config=str(path),
        robot=str(ROOT / "configs" / "robots" / "panda_sort_parts.yaml"),
        gateway=endpoint,
        namespace=NAMESPACE,
        record=str(tmp_path / "run.mcap"),
    )
    seed = seed_with_a_visitor()
    until_s = time.monotonic() + LONGEST_S
    with (
        own_domain(),
        Bringup([robot], server=str(path), logs=tmp_path / "logs") as bringup,
        episodes(
            NAMESPACE,
            TASK,
            alive=lambda: (
                f"not over after {LONGEST_S:g} s" if time.monotonic() > until_s else bringup.failure()
            ),
            operator=stand_in,
            judge=judge_of("sort_parts", task),
        ) as runner,
    ):
        runner.wait_ready(120.0)
        episode = runner.run(1, 1, seed, 300.0)
        shots = list(runner.shots)
    assert (episode.outcome, episode.truth) == ("done", "done"), episode

    rule = read_rule(task.components["system2"].prompt)
    plans = [words for words, _ in groupby(shot.plan for shot in shots if shot.plan)]
    # System 2 looks in every second round, the monitor every second. Where rounds are slow, it is the monitor that ends
    # the task, and the last plan is that of the last block, not "all done".
    steps = [step for step in map(read_plan, plans) if step is not None]
    colours = {int(colour) for colour in Variation.of(seed, SORT_PARTS).block_colour}
    assert {colour for colour, _ in steps} == colours
    assert all(side == (0 if rule >> colour & 1 else 1) for colour, side in steps)

    world, unsafe = World(scene=SORT_PARTS), []
    for shot in shots:
        world.set_state(shot.seed, shot.qpos)
        unsafe.append(not world.safe)
    held = [shot for shot, danger in zip(shots, unsafe, strict=True) if danger and shot.state == "holding"]
    assert len(held) > 10
    stands = [shot.qpos[:7] for shot in held if shot.time_s > held[0].time_s + BRAKES_S]
    assert np.ptp(np.array(stands), axis=0).max() < MOVED_RAD
    after = [shot.qpos[:7] for shot in shots if shot.time_s > held[-1].time_s]
    assert np.ptp(np.array(after), axis=0).max() > 0.2, "it went on"

    (lanes,) = robots(read(tmp_path / "run.mcap"))
    assert [span.what for span in lanes.plans] == plans
