"""What is done to a cell before and while it is looked at: where blocks and arm are, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.panda.kinematics import inverse
from rosa_sim.cell.expert import free_place, home_position
from rosa_sim.cell.layout.hardware import PICK_PLACE, SORT_PARTS, panda
from rosa_sim.cell.world import World
from rosa_sim.training.data.words import Subtask

Vector = NDArray[np.float64]
Corners = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Recipe:
    """What the looks at a scene show, and how often: shares are of 1, lengths in m."""

    looks_per_episode: int  # single looks, each at another cell
    episodes_per_shard: int
    max_rounds: int  # of an episode
    rounds_after_end: tuple[int, int]
    scatter: tuple[
        float, float, float
    ]  # of blocks: in the right bin, there or in another one, or lost as well
    all_in_bins: float  # of cells
    scatter_episodes: bool  # whether episodes begin so, too
    spread: Callable[[np.random.Generator], Vector]  # (2,) of blocks in a bin, about the place for them
    off_table: float  # of the lost blocks
    lost_area: Corners  # (2,) of the others
    poses: Mapping[str, float]  # of the arm in single looks
    episode_poses: Mapping[str, float]  # and as an episode begins
    anywhere: Corners  # (3,) of the tool
    reach: Corners  # (2,) of the tool in any pose but `rest`
    events: tuple[str, ...]  # one of which happens in `trouble` of the episodes
    push_m_s: tuple[float, float]
    trouble: float = 0.35


_SORTING = {"home": 0.26, "above": 0.2, "low": 0.14, "held": 0.18, "over_bin": 0.12, "anywhere": 0.1}
RECIPES = {
    PICK_PLACE: Recipe(
        looks_per_episode=10,
        episodes_per_shard=20,
        max_rounds=26,
        rounds_after_end=(1, 5),
        scatter=(1 / 12, 1 / 12, 1 / 4),
        all_in_bins=0.0,
        scatter_episodes=False,
        spread=lambda rng: rng.uniform(-0.05, 0.05, 2),
        off_table=0.5,
        lost_area=((0.22, -0.55), (0.82, 0.56)),
        poses={"rest": 0.4, "anywhere": 0.6},
        episode_poses={"rest": 0.6, "anywhere": 0.4},
        anywhere=((0.36, -0.32, 0.06), (0.64, 0.36, 0.34)),
        reach=((0.30, -0.36), (0.68, 0.36)),
        events=("drop", "move", "lose", "lose", "put", "push"),
        push_m_s=(0.5, 2.5),
    ),
    SORT_PARTS: Recipe(
        looks_per_episode=40,
        episodes_per_shard=8,
        max_rounds=14,
        rounds_after_end=(1, 4),
        scatter=(0.30, 0.37, 0.43),
        all_in_bins=0.10,
        scatter_episodes=True,
        spread=lambda rng: rng.normal(0, [0.006, 0.012]),
        off_table=0.3,
        lost_area=((0.24, -0.36), (0.78, 0.36)),
        poses=_SORTING,
        episode_poses=_SORTING,
        anywhere=((0.36, -0.30, 0.06), (0.64, 0.30, 0.34)),
        reach=((0.30, -0.33), (0.68, 0.33)),
        events=("drop", "move", "lose", "push"),
        push_m_s=(0.4, 2.0),
    ),
}


@dataclass(frozen=True)
class Disturbance:
    """What is disturbed in one episode."""

    noise: float  # how often a chunk is displaced
    event: str  # what happens to the block of the subtask, or ""
    event_round: int

    @staticmethod
    def draw(rng: np.random.Generator, recipe: Recipe) -> Disturbance:
        """As often as the recipe says."""
        event = str(rng.choice(recipe.events)) if rng.random() < recipe.trouble else ""
        return Disturbance(float(rng.choice([0.0, 0.2, 0.5])), event, int(rng.integers(0, 8)))


def disturb(world: World, rng: np.random.Generator, event: str, subtask: Subtask) -> None:
    """Let it happen to the block of the subtask: put into its bin, moved on the mat, lost, or pushed."""
    number, c = world.number_of(subtask[0]), world.layout
    if event == "push":
        way = rng.uniform(-np.pi, np.pi)
        speed = rng.uniform(*RECIPES[world.scene].push_m_s)
        world.strike_block(number, speed * np.array([np.cos(way), np.sin(way)]))
    elif event == "lose":
        lose(world, rng, number)
    elif event == "put":
        into_bin(world, rng, number, subtask[1])
    elif event == "move":
        world.place_block(number, [*rng.uniform(*np.array([c.mat["x"], c.mat["y"]]).T), 0.021])


def displaced(chunk: NDArray[np.float32], rng: np.random.Generator, chance: float) -> NDArray[np.float64]:
    """The expert's chunk as executed: always with a little noise, sometimes with a smooth displacement."""
    executed = chunk.astype(np.float64)
    if rng.random() < chance:
        ramp = np.linspace(0.2, 1.0, len(chunk))[:, None]
        executed[:, :3] += ramp * rng.normal(0.0, [0.02, 0.02, 0.012])
    executed[:, :3] += rng.normal(0.0, 0.003, (len(chunk), 3))
    executed[:, 2] = np.maximum(executed[:, 2], 0.012)
    return executed


def scatter(world: World, rng: np.random.Generator, rule: int) -> None:
    """Puts some blocks into bins, mostly the ones that `rule` names, and a few where they are lost."""
    recipe = RECIPES[world.scene]
    right, in_bins, moved = recipe.scatter
    all_in_bins = rng.random() < recipe.all_in_bins
    for number in rng.permutation(len(world.layout.block_names)):
        kind = rng.random() * (in_bins if all_in_bins else 1.0)
        colour = int(world.variation.block_colour[number])
        right_bin = 0 if len(world.bin_positions) == 1 or rule >> colour & 1 else 1
        if kind < right:
            into_bin(world, rng, int(number), right_bin)
        elif kind < in_bins:
            into_bin(world, rng, int(number), 1 - right_bin)
        elif kind < moved:
            lose(world, rng, int(number))
    world.set_state(world.seed, world.qpos)


def into_bin(world: World, rng: np.random.Generator, number: int, bin_id: int) -> None:
    """A block lies in a bin: about where the expert puts it down."""
    xy = free_place(world, bin_id) + RECIPES[world.scene].spread(rng)
    world.place_block(number, [*xy, 0.0221])


def lose(world: World, rng: np.random.Generator, number: int) -> None:
    """A block lies beside mat and bins, or fell off the table."""
    recipe, c = RECIPES[world.scene], world.layout
    if rng.random() < recipe.off_table:
        xy = rng.choice([-1, 1]) * rng.uniform([-0.6, 0.65], [0.9, 1.0])
        world.place_block(number, [*xy, -0.3])
        return
    half = np.array(c.bins["inner_half"]) + 0.04
    for _ in range(200):
        xy = rng.uniform(*recipe.lost_area)
        clear = all((np.abs(xy - middle) > half).any() for middle in world.bin_positions)
        alone = all(np.linalg.norm(xy - other[:2]) > 0.07 for other in world.block_positions)
        if clear and alone and not c.on_mat(xy, c.mat["lost_margin"] + 0.012):
            world.place_block(number, [*xy, 0.0205])
            return


def pose_arm(world: World, rng: np.random.Generator, subtask: Subtask, poses: Mapping[str, float]) -> None:
    """The arm at rest, about home, above a block, with one in its gripper, above a bin, or anywhere above the table."""
    recipe, (colour, bin_id) = RECIPES[world.scene], subtask
    block, drop = world.block(colour), free_place(world, bin_id)
    kind, width = rng.choice(list(poses), p=list(poses.values())), 0.08
    if kind == "rest":
        return
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
        tool = rng.uniform(*recipe.anywhere)
        width = float(rng.choice([0.08, 0.08, rng.uniform(0.0, 0.08)]))
    tool[:2] = np.clip(tool[:2], *recipe.reach)
    move_tool(world, tool, width)
    if width == 0.04:
        world.place_block(world.number_of(colour), world.tool_position + rng.normal(0, 0.002, 3))
        world.set_state(world.seed, world.qpos)


def start_anywhere(world: World, rng: np.random.Generator) -> None:
    """The arm anywhere above the table, most often with its gripper open."""
    pose_arm(world, rng, (int(world.variation.block_colour[0]), 0), {"anywhere": 1.0})


def move_tool(world: World, tool: Vector, width: float) -> None:
    """The tool at `tool` `(3,)` m, the gripper open by `width` m, everything at rest."""
    qpos = world.qpos
    qpos[:7] = inverse(tool, _near(tool), iterations=4)
    qpos[7:9] = width / 2
    world.set_state(world.seed, qpos)


@cache
def _grid() -> tuple[Vector, Vector]:
    """Tool positions `(n, 3)` m all over the cell, and joints `(n, 7)` rad that are there: where `inverse` begins."""
    axes = (np.arange(0.28, 0.72, 0.04), np.arange(-0.36, 0.38, 0.04), np.arange(0.01, 0.38, 0.04))
    tools = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return tools, inverse(tools, np.broadcast_to(panda().home_rad, (len(tools), 7)), iterations=30)


def _near(tool: Vector) -> Vector:
    """Joints `(7,)` rad of the place of the grid that is nearest to `tool` `(3,)` m."""
    tools, joints = _grid()
    return np.asarray(joints[np.argmin(np.square(tools - tool).sum(axis=1))])
