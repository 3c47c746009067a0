"""The way that a retry takes, clear -> drop -> clear -> home, from wherever the arm may stand, also low in the bin."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import mujoco
import numpy as np
import pytest

from rosa_client.motion.arm_orders import MoveTo, OrderId, PlayerState
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits
from rosa_contract.config.robot import load_robot
from rosa_server.models.panda.kinematics import forward, inverse
from rosa_sim.cell.layout.hardware import cell
from rosa_sim.cell.world import World

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")
HOME = np.array(SPEC.home_rad)
TOUCH_N = 60.0  # a finger that grazes the bin's wall; the servos push with hundreds
KEEP = float("nan")


@dataclass
class Route:
    """One run: the worst force on what stands fixed, and how the arm was moved."""

    world: World
    player: ChunkPlayer
    now_s: float = 0.0
    seq: int = 0
    forces_n: dict[str, float] = field(default_factory=dict)

    def move(self, pose: str, gripper_m: float = KEEP) -> None:
        self.seq += 1
        refused = self.player.order(self.now_s, OrderId(1, self.seq), MoveTo(SPEC.pose(pose), gripper_m))
        assert refused is None, f"to {pose}: {refused}"
        end_s = self.now_s + 10.0
        while self.player.state is not PlayerState.HOLDING:
            assert self.now_s < end_s, f"the move to {pose} did not end"
            self.step(0.01)
        assert self.player.cut_short == ""

    def step(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            self.player.alive(self.now_s, self.player.last)
            setpoint = self.player.update(self.now_s)
            self.world.step(setpoint.q_rad, float(setpoint.gripper_m[0]), 0.01)
            self.now_s += 0.01
            for name, force in touched(self.world).items():
                self.forces_n[name] = max(self.forces_n.get(name, 0.0), force)


def touched(world: World) -> dict[str, float]:
    """Normal forces between the robot and the table or the bin, N."""
    model, force, found = world.model, np.zeros(6), {}
    for i in range(world.data.ncon):
        contact = world.data.contact[i]
        pair = (int(contact.geom1), int(contact.geom2))
        robot = [model.body(model.geom_bodyid[geom]).name.startswith("panda") for geom in pair]
        fixed = [geom for geom, arm in zip(pair, robot, strict=True) if not arm]
        name = model.geom(fixed[0]).name if len(fixed) == 1 else ""
        if name == "table" or name.startswith("left_bin"):
            mujoco.mj_contactForce(model, world.data, i, force)
            found[name] = max(found.get(name, 0.0), abs(float(force[0])))
    return found


def begin(seed: int, in_bin: bool, holds: bool) -> Route | None:
    """The arm somewhere over mat and bin, or low in the bin, perhaps with the cube; None where it would touch."""
    rng = np.random.default_rng(seed)
    world = World(seed)
    if in_bin:
        tool = np.array(
            [
                *(world.bin_positions[0] + rng.uniform(-1, 1, 2) * (0.03 if holds else 0.014)),
                rng.uniform(0.022, 0.06),
            ]
        )
    else:
        tool = np.array([rng.uniform(0.36, 0.64), rng.uniform(-0.3, 0.36), rng.uniform(0.02, 0.3)])
    q = inverse(tool, HOME, iterations=80)
    q[6] += rng.uniform(-0.4, 0.4)
    qpos = world.qpos
    qpos[:7] = q
    qpos[7:9] = 0.021 if holds else 0.04
    if holds:
        cube = int(world.model.joint("block0").qposadr[0])
        place, rotation = forward(q)
        qpos[cube : cube + 3] = place + rotation @ [0.0, 0.0, rng.uniform(-0.006, 0.004)]
        turn = np.zeros(4)
        mujoco.mju_mat2Quat(turn, rotation.ravel())
        qpos[cube + 3 : cube + 7] = turn
    world.set_state(seed, qpos)
    player = ChunkPlayer(MotionLimits.of(SPEC), SPEC.control_rate_hz)
    player.reset(q, 0.0 if holds else 0.08)
    route = Route(world, player)
    if touched(world):
        return None
    route.step(0.4)  # the fingers close on the cube
    return None if route.forces_n else route


def run(seed: int, in_bin: bool, holds: bool) -> Route | None:
    route = begin(seed, in_bin, holds)
    if route is None:
        return None
    route.move("clear")
    if holds:
        assert np.linalg.norm(route.world.block_positions[0] - route.world.tool_position) < 0.03, (
            "it is still held"
        )
        route.move("drop")
        route.move("drop", SPEC.gripper.max_m)
        route.step(0.6)
    route.move("clear", SPEC.gripper.max_m)
    route.move("home", SPEC.gripper.max_m)
    route.step(0.5)
    assert np.abs(route.world.joint_position - HOME).max() < 0.01
    return route


@pytest.mark.slow
@pytest.mark.parametrize("holds", [True, False], ids=["holds", "empty"])
@pytest.mark.parametrize("in_bin", [True, False], ids=["in_bin", "anywhere"])
def test_a_retry_gets_home_from_anywhere_and_leaves_what_it_held_on_the_mat(
    in_bin: bool, holds: bool
) -> None:
    tried = (run(seed, in_bin, holds) for seed in range(20))
    done = list(islice((route for route in tried if route is not None), 3))
    assert len(done) == 3, "too many of these places touch the bin to begin with"
    for route in done:
        assert max(route.forces_n.values(), default=0.0) < TOUCH_N, route.forces_n
        if holds:
            x, y, z = route.world.block_positions[0]
            mat = cell().mat
            assert mat["x"][0] < x < mat["x"][1] and mat["y"][0] < y < mat["y"][1] and z < 0.03, (x, y, z)
