"""The simulated arm offers the scene around it; an arm without one offers none, and a faulty one what it wraps."""

from __future__ import annotations

from pathlib import Path

from rosa_client.drivers.arms import create_arm, scene_of
from rosa_contract.config.robot import load_robot
from rosa_sim.faults.arm import FaultyArm
from rosa_sim.faults.switch import Switch
from tests.unit.client.sent import sent

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")


def test_a_simulated_arm_offers_its_scene(tmp_path: Path) -> None:
    arm = create_arm("mujoco", SPEC, 3)
    scene = scene_of(arm)
    assert scene is not None
    assert scene.seed == 3
    scene.reset(5)
    assert scene.seed == 5
    assert scene.outcome() == "ongoing"
    assert scene_of(FaultyArm(arm, Switch(str(tmp_path / "switch.json")))) is scene


def test_an_arm_without_a_scene_offers_none() -> None:
    assert scene_of(create_arm("echo", SPEC, 0)) is None


def test_the_sorting_arm_offers_its_cell_and_says_whether_every_block_is_put_away() -> None:
    spec = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda_sort_parts.yaml")
    arm = create_arm("mujoco_sort_parts", spec, 3)
    scene = scene_of(arm)
    assert scene is not None
    assert scene.seed == 3 and len(scene.qpos) == 33
    assert scene.outcome() == "ongoing"
    before = arm.read()
    arm.track(sent(before.q_rad + 0.01, 0.08, 0.01))
    arm.track(sent(before.q_rad + 0.01, 0.08, 0.05))
    assert (arm.read().q_rad > before.q_rad + 0.005).all()
    scene.reset(5)
    assert scene.seed == 5
