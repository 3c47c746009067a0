"""`python -m rosa_sim.training.sort_parts.collect`: looks at the sorting cell, labelled by the expert and the world.

Half of them show a separate cell, half come from disturbed episodes. A shard holds one of each kind in turn. More
shards hold nothing but separate cells, most of them with a hand. Shards that exist are kept, so that a second start
goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from rosa_server.models.panda.kinematics import inverse, inverse_path
from rosa_sim.cell.expert import home_position
from rosa_sim.cell.layout.hardware import SORT_PARTS, cell, panda
from rosa_sim.cell.layout.sort_names import BLOCKS
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.sort_parts.expert import free_place, subtask_chunk
from rosa_sim.cell.sort_parts.world import SortWorld
from rosa_sim.training.pick_place.collect import HELD_OUT_SEED, LOOK_SEED, TRAIN_SEED, displaced
from rosa_sim.training.sort_parts.dataset import EVALUATION_SEED
from rosa_sim.training.sort_parts.looks import (
    HAND_SHARE,
    LookRecorder,
    draw_rule,
    draw_subtask,
    make_renderer,
)
from rosa_sim.training.sort_parts.words import Subtask, next_subtask

LOOKS_PER_EPISODE = 40
EPISODES_PER_SHARD = 8
HAND_SEED, HAND_LOOKS_PER_SHARD, HAND_LOOKS_SHARE = 300_000, 480, 0.7
MAX_ROUNDS = 14
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class SortDisturbance:
    """What is disturbed in one episode."""

    noise: float  # how often a chunk is displaced
    event: str  # "", "drop", "move", "lose" or "push": what happens to the block of the subtask
    event_round: int

    @staticmethod
    def draw(rng: np.random.Generator) -> SortDisturbance:
        """A third of the episodes has an event."""
        event = str(rng.choice(["drop", "move", "lose", "push"])) if rng.random() < 0.35 else ""
        return SortDisturbance(float(rng.choice([0.0, 0.2, 0.5])), event, int(rng.integers(0, 8)))


def single_look(
    world: SortWorld, recorder: LookRecorder, rng: np.random.Generator, hand_share: float = HAND_SHARE
) -> None:
    """One labelled look at a separate cell: blocks anywhere in a sort, the arm where it is while it sorts."""
    rule = draw_rule(rng, world.variation.block_colour)
    scatter(world, rng, rule)
    subtask = draw_subtask(rng, world, rule)
    pose_arm(world, rng, subtask)
    recorder.record(subtask, rule, settled=True, hand_share=hand_share)


def scatter(world: SortWorld, rng: np.random.Generator, rule: int) -> None:
    """Puts some blocks into bins, mostly the ones that `rule` names, and a few where they are lost."""
    all_in_bins = rng.random() < 0.10
    for number in rng.permutation(len(BLOCKS)):
        kind = rng.random() * (0.37 if all_in_bins else 1.0)
        colour = int(world.variation.block_colour[number])
        right_bin = 0 if rule >> colour & 1 else 1
        if kind < 0.30:
            into_bin(world, rng, int(number), right_bin)
        elif kind < 0.37:
            into_bin(world, rng, int(number), 1 - right_bin)
        elif kind < 0.43:
            lose(world, rng, int(number))
    world.set_state(world.seed, world.qpos)


def pose_arm(world: SortWorld, rng: np.random.Generator, subtask: Subtask) -> None:
    """The arm at home, above a block, with one in its gripper, above a bin, or anywhere above the table."""
    colour, bin_id = subtask
    block = world.block(colour)
    kind = rng.choice(
        ["home", "above", "low", "held", "over_bin", "anywhere"], p=[0.26, 0.2, 0.14, 0.18, 0.12, 0.1]
    )
    width = 0.08
    drop = free_place(world, bin_id)
    if kind == "home":
        tool = home_position() + rng.normal(0, 0.012, 3)
    elif kind == "above":
        tool = np.array([*(block.position[:2] + rng.normal(0, 0.03, 2)), rng.uniform(0.08, 0.24)])
    elif kind == "low" and block.place == "mat":
        tool = np.array([*(block.position[:2] + rng.normal(0, 0.006, 2)), rng.uniform(0.016, 0.08)])
    elif kind == "held" and block.place == "mat":
        away = rng.random()
        on_way = (1 - away) * block.position[:2] + away * drop
        tool = np.array([*(on_way + rng.normal(0, 0.012, 2)), rng.uniform(0.10, 0.19)])
        if away < 0.1:
            tool = np.array([*block.position[:2], rng.uniform(0.03, 0.17)])
        elif away > 0.9:
            tool[2] = rng.uniform(0.08, 0.18)
        width = 0.04
    elif kind == "over_bin":
        tool = np.array([*(drop + rng.normal(0, 0.02, 2)), rng.uniform(0.085, 0.24)])
        width = float(rng.choice([0.08, 0.08, 0.0, 0.06]))
    else:
        tool = rng.uniform([0.36, -0.30, 0.06], [0.64, 0.30, 0.34])
        width = float(rng.choice([0.08, 0.08, rng.uniform(0.0, 0.08)]))
    tool[:2] = np.clip(tool[:2], [0.30, -0.33], [0.68, 0.33])
    qpos = world.qpos
    qpos[:7] = inverse(tool, near(tool), iterations=4)
    qpos[7:9] = width / 2
    world.set_state(world.seed, qpos)
    if width == 0.04:
        number = [one.colour for one in world.blocks].index(colour)
        place(world, number, world.tool_position + rng.normal(0, 0.002, 3))
        world.set_state(world.seed, world.qpos)


@cache
def grid() -> tuple[Vector, Vector]:
    """Tool positions `(n, 3)` m all over the cell, and joints `(n, 7)` rad that are there: where `inverse` begins."""
    axes = (np.arange(0.28, 0.72, 0.04), np.arange(-0.36, 0.38, 0.04), np.arange(0.01, 0.38, 0.04))
    tools = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return tools, inverse(tools, np.broadcast_to(panda().home_rad, (len(tools), 7)), iterations=30)


def near(tool: Vector) -> Vector:
    """Joints `(7,)` rad of the place of `grid` that is nearest to `tool` `(3,)` m."""
    tools, joints = grid()
    return np.asarray(joints[np.argmin(np.square(tools - tool).sum(axis=1))])


def play_episode(world: SortWorld, recorder: LookRecorder, rng: np.random.Generator) -> None:
    """The expert sorts by a rule from a state halfway through; every state that occurs is a look."""
    rule = draw_rule(rng, world.variation.block_colour)
    scatter(world, rng, rule)
    subtask = next_subtask(rule, world.blocks) or draw_subtask(rng, world, rule)
    if rng.random() < 0.2:
        subtask = draw_subtask(rng, world, rule)
    pose_arm(world, rng, subtask)
    disturbance = SortDisturbance.draw(rng)
    arm = SynchronousArm(world)
    arm.wait()
    rounds_after_end = int(rng.integers(1, 4))
    for round_number in range(MAX_ROUNDS):
        if round_number == disturbance.event_round:
            disturb(world, rng, disturbance, subtask[0])
            arm.wait(0.15)
        if world.outcome(*subtask) != "ongoing":
            rounds_after_end -= 1
            if rounds_after_end < 0:
                planned = next_subtask(rule, world.blocks)
                if planned is None or planned == subtask:
                    break
                subtask, rounds_after_end = planned, int(rng.integers(1, 4))
        chunk = subtask_chunk(world, *subtask)
        look(world, recorder, rng, subtask, rule, settled=True)
        executed = displaced(chunk, rng, disturbance.noise)
        if disturbance.event == "drop" and world.block(subtask[0]).place == "hand" and rng.random() < 0.5:
            executed[:, 3] = 0.08
        q = inverse_path(executed[None, :, :3], world.joint_position[None])[0]
        actions = np.concatenate([q, executed[:, 3:]], axis=1)
        for pair in range(4):
            arm.play(actions[2 * pair : 2 * pair + 2], executed_steps=2)
            if pair < 3 and rng.random() < 0.7:
                look(world, recorder, rng, subtask, rule, settled=False)
        arm.wait(float(rng.uniform(0.06, 0.16)))


def look(
    world: SortWorld,
    recorder: LookRecorder,
    rng: np.random.Generator,
    subtask: Subtask,
    rule: int,
    settled: bool,
) -> None:
    """A look with the subtask and the rule of the episode, or with others that fit the picture as well."""
    if rng.random() < 0.5:
        rule = draw_rule(rng, world.variation.block_colour)
    if rng.random() < 0.25:
        subtask = draw_subtask(rng, world, rule)
    recorder.record(subtask, rule, settled)


def disturb(world: SortWorld, rng: np.random.Generator, disturbance: SortDisturbance, colour: int) -> None:
    """What happens to the block of `colour`."""
    number = [block.colour for block in world.blocks].index(colour)
    if disturbance.event == "push":
        speed_at = world.model.joint(BLOCKS[number]).dofadr[0]
        way = rng.uniform(-np.pi, np.pi)
        world.data.qvel[speed_at : speed_at + 2] = rng.uniform(0.4, 2.0) * np.array(
            [np.cos(way), np.sin(way)]
        )
    elif disturbance.event == "lose":
        lose(world, rng, number)
    elif disturbance.event == "move":
        c = cell(SORT_PARTS)["mat"]
        place(world, number, np.array([*rng.uniform(*np.array([c["x"], c["y"]]).T), 0.021]))


def into_bin(world: SortWorld, rng: np.random.Generator, number: int, bin_id: int) -> None:
    """A block lies in a bin: about where the expert puts it down."""
    xy = free_place(world, bin_id) + rng.normal(0, [0.006, 0.012])
    place(world, number, np.array([*xy, 0.0221]))


def lose(world: SortWorld, rng: np.random.Generator, number: int) -> None:
    """A block lies beside mat and bins, or fell off the table."""
    c = cell(SORT_PARTS)
    if rng.random() < 0.3:
        xy = rng.choice([-1, 1]) * rng.uniform([-0.6, 0.65], [0.9, 1.0])
        place(world, number, np.array([*xy, -0.3]))
        return
    for _ in range(200):
        position = np.array([*rng.uniform([0.24, -0.36], [0.78, 0.36]), 0.0205])
        half = np.array([c["bins"]["inner_half_x"], c["bins"]["inner_half_y"]]) + 0.04
        clear = all((np.abs(position[:2] - xy) > half).any() for xy in world.bin_positions)
        alone = all(np.linalg.norm(position[:2] - other[:2]) > 0.07 for other in world.block_positions)
        (x0, x1), (y0, y1) = c["mat"]["x"], c["mat"]["y"]
        margin = c["mat"]["lost_margin"] + 0.012
        off_mat = not (x0 - margin < position[0] < x1 + margin and y0 - margin < position[1] < y1 + margin)
        if clear and alone and off_mat:
            place(world, number, position)
            return


def place(world: SortWorld, number: int, position: Vector) -> None:
    """Put a block at `position` `(3,)` m, at rest and turned as it was at first."""
    at, speed_at = (
        int(world.model.joint(BLOCKS[number]).qposadr[0]),
        int(world.model.joint(BLOCKS[number]).dofadr[0]),
    )
    yaw = world.variation.block_yaw[number]
    world.data.qpos[at : at + 7] = [*position, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
    world.data.qvel[speed_at : speed_at + 6] = 0.0


def collect_shard(folder: Path, first_seed: int) -> Path:
    """As one npz file: `EPISODES_PER_SHARD` episodes and their single looks from `first_seed` on, or looks at hands."""
    path = folder / f"{first_seed}.npz"
    if path.is_file():
        return path
    world, renderer = SortWorld(first_seed), make_renderer()
    rng = np.random.default_rng([8, first_seed])
    recorder = LookRecorder(world, renderer, rng)
    try:
        hands = HAND_LOOKS_PER_SHARD if HAND_SEED <= first_seed < HELD_OUT_SEED else 0
        for number in range(hands):
            world.reset(LOOK_SEED + first_seed * LOOKS_PER_EPISODE + number)
            single_look(world, recorder, rng, HAND_LOOKS_SHARE)
        for seed in range(first_seed, first_seed + (0 if hands else EPISODES_PER_SHARD)):
            for number in range(LOOKS_PER_EPISODE):
                world.reset(LOOK_SEED + seed * LOOKS_PER_EPISODE + number)
                single_look(world, recorder, rng)
            world.reset(seed)
            play_episode(world, recorder, rng)
    finally:
        renderer.close()
    rows = recorder.rows
    scratch = path.with_suffix(f".{os.getpid()}.tmp")
    arrays: dict[str, Any] = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    with scratch.open("wb") as file:
        np.savez(file, **arrays)
    scratch.rename(path)
    return path


def collect(folder: Path, shards: int, hand_shards: int, held_out_shards: int, workers: int) -> None:
    """Collect every missing shard, in `workers` processes; the held-out ones are among the first.

    There are as many held-out shards to choose by as to evaluate on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    seeds = [TRAIN_SEED + i * EPISODES_PER_SHARD for i in range(shards)]
    held_out = [HELD_OUT_SEED + i * EPISODES_PER_SHARD for i in range(held_out_shards)]
    evaluated = [EVALUATION_SEED + i * EPISODES_PER_SHARD for i in range(held_out_shards)]
    # A shard's looks are cells of their own as long as shards stand this far apart.
    apart = -(-HAND_LOOKS_PER_SHARD // LOOKS_PER_EPISODE)
    hands = [HAND_SEED + i * apart for i in range(hand_shards)]
    seeds[3:3], seeds[20:20] = held_out[:2], [*held_out[2:], *evaluated, *hands]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        done = pool.imap_unordered(_job, [(folder, seed) for seed in seeds])
        for _ in tqdm(done, total=len(seeds), desc="collect", unit="shard"):
            pass


def _job(job: tuple[Path, int]) -> Path:
    return collect_shard(*job)


def main() -> None:
    """Collects what is asked for."""
    root = Path(__file__).resolve().parents[3]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=root / ".cache" / "sort_parts" / "demos")
    parser.add_argument("--shards", type=int, default=50, help="to train on")
    parser.add_argument("--hand-shards", type=int, default=9, help="more to train on, mostly hands")
    parser.add_argument("--held-out-shards", type=int, default=4, help="each to choose by and to evaluate on")
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() or 1), help="processes")
    args = parser.parse_args()
    collect(args.folder, args.shards, args.hand_shards, args.held_out_shards, args.workers)


if __name__ == "__main__":
    main()
