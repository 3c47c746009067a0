"""Episodes of the model in the sorting cell: one block for a prompt, or a whole sort with and without System 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rosa_server.models.backend import Backend, ModelInput
from rosa_sim.cell.layout.hardware import SORT_PARTS, cell
from rosa_sim.cell.layout.sort_names import COLOURS
from rosa_sim.cell.layout.sort_variation import SortVariation
from rosa_sim.cell.layout.variation import unchanged, with_camera_moved
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.sort_parts.world import SortWorld
from rosa_sim.training.pick_place.collect import POLICY_CAMERAS, through_jpeg
from rosa_sim.training.sort_parts import words
from rosa_sim.training.sort_parts.looks import draw_rule
from rosa_sim.training.sort_parts.prompts import monitor_text

ONE_ROUNDS, ALL_ROUNDS = 24, 60
PLAN_EVERY = 2  # rounds
JPEG_QUALITY = 90
PALE = (COLOURS.index("white"), COLOURS.index("black"))


def in_a_quarter_of_the_light(cell_of_seed: SortVariation) -> SortVariation:
    """Every cell as dark as the darkest that was trained on."""
    factor = 0.25 * cell(SORT_PARTS)["lighting"]["headlight"] / cell_of_seed.headlight
    return replace(
        cell_of_seed,
        key_diffuse=cell_of_seed.key_diffuse * factor,
        fill=cell_of_seed.fill * factor,
        headlight=cell_of_seed.headlight * factor,
    )


@dataclass(frozen=True)
class Kind:
    """One row of the evaluation of single blocks."""

    name: str
    change: Callable[[Any], Any] = unchanged
    pale: bool = False  # the block is white or black
    held_out: bool = False  # the prompt is a phrasing that was never trained on
    blank: bool = False  # the pictures are black
    wrong_prompt: bool = False  # it asks for another block into the other bin


KINDS = (
    Kind("one block"),
    Kind("one block, camera moved by 3 cm", change=with_camera_moved(0.03)),
    Kind("one block, a quarter of the light", change=in_a_quarter_of_the_light),
    Kind("one white or black block", pale=True),
    Kind("one block, held-out phrasings", held_out=True),
    Kind("one block, blank images", blank=True),
    Kind("one block, a prompt for another one", wrong_prompt=True),
)


@dataclass(frozen=True)
class SortEpisode:
    """How one went."""

    seed: int
    task: str
    outcome: str  # done, failed or timeout
    rounds: int
    monitor_right: int  # rounds in which the monitor said what was true
    plans_right: int  # of `plans`, the next subtask or one that is as good
    plans: int
    why: str


class Player:
    """A world, its pictures and the model; plays one episode after another."""

    def __init__(self, model: Backend, kind: Kind = KINDS[0]) -> None:
        self._model, self._kind = model, kind
        self.world = SortWorld(0)
        self._renderer = SceneRenderer(POLICY_CAMERAS, kind.change, scene=SORT_PARTS)

    def close(self) -> None:
        """Free the renderer."""
        self._renderer.close()

    def fitting(self, numbers: list[int]) -> list[int]:
        """The seeds of these numbers among all whose cell has a block of the kind, counted from 0."""
        if not self._kind.pale:
            return numbers
        fitting: list[int] = []
        seed = 0
        while len(fitting) <= max(numbers):
            if set(PALE) & {int(one) for one in SortVariation.of(seed).block_colour}:
                fitting.append(seed)
            seed += 1
        return [fitting[number] for number in numbers]

    def one_block(self, seed: int) -> SortEpisode:
        """The block and the bin are drawn from the seed."""
        world, rng = self.world, np.random.default_rng([31, seed])
        world.reset(seed)
        colours = [int(one) for one in world.variation.block_colour]
        wanted = [one for one in colours if one in PALE] if self._kind.pale else colours
        colour, side = int(rng.choice(wanted)), int(rng.integers(2))
        asked = (colour, side)
        if self._kind.wrong_prompt:
            asked = (int(rng.choice([one for one in colours if one != colour])), 1 - side)
        phrasings = words.HELD_OUT_SUBTASKS if self._kind.held_out else words.SUBTASKS
        prompt = words.subtask_text(*asked, int(rng.integers(len(phrasings))), held_out=self._kind.held_out)
        question = monitor_text(words.subtask_text(colour, side), words.MONITOR_QUESTIONS[0])
        arm, right, rounds = SynchronousArm(world), 0, 0
        arm.wait()
        outcome = world.outcome(colour, side)
        while rounds < ONE_ROUNDS and outcome == "ongoing":
            seen = self.look()
            acts, progress = self._model.infer(
                [replace(seen, prompt=prompt), replace(seen, component="monitor", prompt=question)]
            )
            right += progress.verdict == outcome
            arm.play(acts.arrays["actions"])
            arm.wait()
            rounds += 1
            outcome = world.outcome(colour, side)
        last = self._model.infer([replace(self.look(), component="monitor", prompt=question)])[0]
        right += last.verdict == outcome
        return SortEpisode(
            seed,
            prompt,
            "timeout" if outcome == "ongoing" else outcome,
            rounds,
            right,
            0,
            0,
            self._why(colour, outcome),
        )

    def whole_sort(self, seed: int, with_system2: bool) -> SortEpisode:
        """Three blocks by a rule drawn from the seed; without System 2, System 1 is told the rule itself."""
        world, rng = self.world, np.random.default_rng([32, seed])
        world.reset(seed)
        rule = draw_rule(rng, world.variation.block_colour)
        prompt = told = words.rule_text(rule, int(rng.integers(len(words.RULES))))
        arm, rounds, plans, plans_right, subtask = SynchronousArm(world), 0, 0, 0, None
        arm.wait()
        while rounds < ALL_ROUNDS and not world.sorted_by(rule) and (rounds == 0 or self._left(rule)):
            seen = self.look()
            if with_system2 and rounds % PLAN_EVERY == 0:
                prompt = self._model.infer([replace(seen, component="system2", prompt=told)])[0].text
                subtask = words.next_subtask(rule, world.blocks)
                plans_right += prompt == words.plan_text(subtask)
                plans += 1
            arm.play(self._model.infer([replace(seen, prompt=prompt)])[0].arrays["actions"])
            arm.wait()
            rounds += 1
        done = world.sorted_by(rule)
        outcome = "done" if done else "failed" if not self._left(rule) else "timeout"
        places = ", ".join(f"{COLOURS[one.colour]} {one.place}" for one in world.blocks)
        return SortEpisode(seed, told, outcome, rounds, 0, plans_right, plans, "" if done else places)

    def _left(self, rule: int) -> bool:
        """Whether the sort can still succeed: no block in the wrong bin or lost."""
        return all(
            self.world.outcome(block.colour, 0 if rule >> block.colour & 1 else 1) != "failed"
            for block in self.world.blocks
        )

    def look(self) -> ModelInput:
        """What the robot would send now."""
        world = self.world
        pictures = self._renderer.render(world.seed, world.qpos)
        share = 0 if self._kind.blank else 1
        images = {name: through_jpeg(one * share, JPEG_QUALITY) for name, one in pictures.items()}
        state = {
            "joint_position": world.joint_position.astype(np.float32),
            "gripper_width": np.array([world.gripper_width], np.float32),
        }
        return ModelInput("system1", images=images, state=state)

    def _why(self, colour: int, outcome: str) -> str:
        if outcome == "done":
            return ""
        block = self.world.block(colour)
        off = np.round((self.world.tool_position - block.position) * 1000).astype(int).tolist()
        return f"the block is in place {block.place!r}, the tool off by {off} mm"
