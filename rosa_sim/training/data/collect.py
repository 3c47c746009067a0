"""Looks at a scene, labelled by the expert and the world: the expert acts under deliberate disturbances.

Some show a separate cell each, the others come from disturbed episodes, so that recoveries, ends and failures are all
well covered. A shard holds both. More shards, of a scene that a hand may enter, hold separate cells only, most of them
with a hand. Shards that exist are kept, so that a second start goes on where the first one ended.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from rosa_server.models.panda.kinematics import inverse_path
from rosa_sim.cell.expert import expert_chunk
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.world import World
from rosa_sim.training.data.dataset import EVALUATION_SEED, HELD_OUT_SEED, LOOK_SEED, TRAIN_SEED
from rosa_sim.training.data.looks import HAND_SHARE, LookRecorder
from rosa_sim.training.data.moves import RECIPES, Disturbance, displaced, disturb, pose_arm, scatter
from rosa_sim.training.data.pictures import POLICY_CAMERAS
from rosa_sim.training.data.words import ALL_LEFT, Subtask, next_subtask, rule_of

HAND_SEED, HAND_LOOKS_PER_SHARD, HAND_LOOKS_SHARE = 300_000, 480, 0.7
OPEN_M = 0.08
LIFTED_M = 0.07  # a block that is carried


def draw_rule(rng: np.random.Generator, world: World) -> int:
    """A rule about the colours that are present, sometimes naming one that is not. A cell with one bin has none: 0."""
    if len(world.bin_positions) == 1:
        return 0
    present = world.variation.block_colour
    kind = rng.random()
    if kind < 0.06:
        return ALL_LEFT
    left = [int(colour) for colour in present if rng.random() < 0.45]
    if kind > 0.75:
        absent = [colour for colour in range(len(world.layout.colours)) if colour not in present]
        left.append(int(rng.choice(absent)))
    return rule_of(left)


def draw_subtask(rng: np.random.Generator, world: World, rule: int) -> Subtask:
    """Any block into any bin, or what the rule says is next."""
    plan = planned(world, rule)
    if plan is not None and rng.random() < 0.4:
        return plan
    return int(rng.choice(world.variation.block_colour)), int(rng.integers(len(world.bin_positions)))


def planned(world: World, rule: int) -> Subtask | None:
    """What to do next by the rule; in a cell with one bin there is only that."""
    plan = next_subtask(rule, world.blocks)
    return plan if plan is None or len(world.bin_positions) > 1 else (plan[0], 0)


def single_look(
    world: World, recorder: LookRecorder, rng: np.random.Generator, hand_share: float = HAND_SHARE
) -> None:
    """One labelled look at a separate cell: blocks anywhere in a task, the arm where it is while it works."""
    rule = draw_rule(rng, world)
    scatter(world, rng, rule)
    subtask = draw_subtask(rng, world, rule)
    pose_arm(world, rng, subtask, RECIPES[world.scene].poses)
    recorder.record(subtask, rule, settled=True, hand_share=hand_share)


def play_episode(world: World, recorder: LookRecorder, rng: np.random.Generator) -> None:
    """The expert works by a rule to a little after its end; every state that occurs is a look."""
    recipe, rule = RECIPES[world.scene], draw_rule(rng, world)
    if recipe.scatter_episodes:
        scatter(world, rng, rule)
    subtask = planned(world, rule) or draw_subtask(rng, world, rule)
    if rng.random() < 0.2:
        subtask = draw_subtask(rng, world, rule)
    pose_arm(world, rng, subtask, recipe.episode_poses)
    disturbance = Disturbance.draw(rng, recipe)
    arm = SynchronousArm(world)
    arm.wait()
    left = int(rng.integers(*recipe.rounds_after_end))
    for round_number in range(recipe.max_rounds):
        if round_number == disturbance.event_round:
            disturb(world, rng, disturbance.event, subtask)
            arm.wait(0.15)
        if world.block_outcome(*subtask) != "ongoing":
            left -= 1
            if left < 0:
                plan = planned(world, rule)
                if plan is None or plan == subtask:
                    break
                subtask, left = plan, int(rng.integers(*recipe.rounds_after_end))
        chunk = expert_chunk(world, *subtask)
        _look(world, recorder, rng, subtask, rule, settled=True)
        executed = displaced(chunk, rng, disturbance.noise)
        carried = world.block(subtask[0]).position[2] > LIFTED_M
        if disturbance.event == "drop" and carried and rng.random() < 0.5:
            executed[:, 3] = OPEN_M
        q = inverse_path(executed[None, :, :3], world.joint_position[None])[0]
        actions: NDArray[np.float64] = np.concatenate([q, executed[:, 3:]], axis=1)
        for pair in range(4):
            arm.play(actions[2 * pair : 2 * pair + 2], executed_steps=2)
            if pair < 3 and rng.random() < 0.7:
                _look(world, recorder, rng, subtask, rule, settled=False)
        arm.wait(float(rng.uniform(0.06, 0.16)))


def _look(
    world: World, recorder: LookRecorder, rng: np.random.Generator, subtask: Subtask, rule: int, settled: bool
) -> None:
    """A look with the subtask and the rule of the episode, or with others that fit the picture as well."""
    if rng.random() < 0.5:
        rule = draw_rule(rng, world)
    if rng.random() < 0.25:
        subtask = draw_subtask(rng, world, rule)
    recorder.record(subtask, rule, settled)


def collect_shard(folder: Path, scene: str, first_seed: int) -> Path:
    """As one npz file: episodes and their single looks from `first_seed` on, or looks at hands."""
    path = folder / f"{first_seed}.npz"
    if path.is_file():
        return path
    world, renderer, recipe = (
        World(first_seed, scene),
        SceneRenderer(POLICY_CAMERAS, scene=scene),
        RECIPES[scene],
    )
    rng = np.random.default_rng([8, first_seed])
    recorder = LookRecorder(world, renderer, rng)
    of_hands = world.layout.hand is not None and HAND_SEED <= first_seed < HELD_OUT_SEED
    try:
        for number in range(HAND_LOOKS_PER_SHARD if of_hands else 0):
            world.reset(LOOK_SEED + first_seed * recipe.looks_per_episode + number)
            single_look(world, recorder, rng, HAND_LOOKS_SHARE)
        for seed in range(first_seed, first_seed + (0 if of_hands else recipe.episodes_per_shard)):
            for number in range(recipe.looks_per_episode):
                world.reset(LOOK_SEED + seed * recipe.looks_per_episode + number)
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


def collect(folder: Path, scene: str, first_seeds: Sequence[int], workers: int) -> None:
    """Collect every missing shard, in `workers` processes."""
    folder.mkdir(parents=True, exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        done = pool.imap_unordered(_job, [(folder, scene, seed) for seed in first_seeds])
        for _ in tqdm(done, total=len(first_seeds), desc="collect", unit="shard"):
            pass


def shards_of(scene: str, train: int, held_out: int, hands: int = 0) -> list[int]:
    """The first seeds of so many shards to train on, to hold out, and of hands; the held-out ones are among the first.

    Of a scene with hands as many shards are held out to evaluate on as to choose by.
    """
    recipe = RECIPES[scene]
    seeds = [TRAIN_SEED + i * recipe.episodes_per_shard for i in range(train)]
    others = [HELD_OUT_SEED + i * recipe.episodes_per_shard for i in range(held_out)]
    if hands:
        others += [EVALUATION_SEED + i * recipe.episodes_per_shard for i in range(held_out)]
        # A shard's looks are separate cells as long as shards stand this far apart.
        apart = -(-HAND_LOOKS_PER_SHARD // recipe.looks_per_episode)
        others += [HAND_SEED + i * apart for i in range(hands)]
    return [*seeds[:5], *others, *seeds[5:]]


def _job(job: tuple[Path, str, int]) -> Path:
    return collect_shard(*job)
