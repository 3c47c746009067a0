"""Episodes of a model in a cell, as the robot runs them: look, infer, play 400 ms, hold while the next inference runs.

What is asked, what is true and how long it may take is the task's: the only block into the only bin, one block for a
prompt, or a whole sort with and without System 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_sim.cell.layout.hardware import PICK_PLACE
from rosa_sim.cell.layout.variation import Change, Variation, unchanged
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.world import Outcome, World
from rosa_sim.training.data import words
from rosa_sim.training.data.collect import draw_rule
from rosa_sim.training.data.looks import look
from rosa_sim.training.data.pictures import POLICY_CAMERAS

PLAN_EVERY = 2  # rounds
PALE = (words.COLOURS.index("white"), words.COLOURS.index("black"))
CLOSED_M = 0.04
MONITOR = "monitor"
PLACES = {
    "mat": "on the mat",
    "hand": "in the hand",
    "left": "in the left bin",
    "right": "in the right bin",
    "lost": "lost",
}


class EpisodeModel(Protocol):
    """What an episode asks of a model."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One answer per input."""


@dataclass(frozen=True)
class PlayedTask:
    """One episode's task in a world."""

    truth: Callable[[], Outcome]
    looks: int  # at most
    acts: int  # at most; a look after the last of them is judged only
    after_end: int = 0  # rounds that go on after the end
    prompt: str = ""  # of System 1, or of System 2 where there is a plan
    question: str = ""  # the monitor's prompt
    plan: Callable[[], str] | None = (
        None  # what System 2 should say now; it is asked every `PLAN_EVERY` rounds
    )


@dataclass(frozen=True)
class Kind:
    """One row of an evaluation: which task, and how the cells look."""

    name: str
    task: Callable[[World, Kind], PlayedTask]
    change: Change = unchanged
    pale: bool = False  # the block is white or black
    held_out: bool = False  # the prompt is a phrasing that was never trained on
    blank: bool = False  # the pictures are black
    wrong_prompt: bool = False  # it asks for another block into the other bin
    with_system2: bool = False  # else System 1 is told the rule itself


def only_block(world: World, kind: Kind) -> PlayedTask:
    """Pick and place. 20 s of the robot's time; a clean pick takes about 10 rounds."""
    return PlayedTask(world.outcome, looks=40, acts=40, after_end=2)


def one_block(world: World, kind: Kind) -> PlayedTask:
    """The block and the bin are drawn from the seed."""
    rng = np.random.default_rng([31, world.seed])
    colours = [int(one) for one in world.variation.block_colour]
    wanted = [one for one in colours if one in PALE] if kind.pale else colours
    colour, side = int(rng.choice(wanted)), int(rng.integers(2))
    asked = (colour, side)
    if kind.wrong_prompt:
        asked = (int(rng.choice([one for one in colours if one != colour])), 1 - side)
    phrasings = words.HELD_OUT_SUBTASKS if kind.held_out else words.SUBTASKS
    prompt = words.subtask_text(*asked, int(rng.integers(len(phrasings))), held_out=kind.held_out)
    question = words.monitor_text(words.subtask_text(colour, side), words.MONITOR_QUESTIONS[0])
    return PlayedTask(lambda: world.block_outcome(colour, side), 25, 24, prompt=prompt, question=question)


def whole_sort(world: World, kind: Kind) -> PlayedTask:
    """All blocks by a rule drawn from the seed. It has failed when one lies in the wrong bin or is lost."""
    rng = np.random.default_rng([32, world.seed])
    rule = draw_rule(rng, world)
    told = words.rule_text(rule, int(rng.integers(len(words.RULES))))

    def truth() -> Outcome:
        outcomes = [world.block_outcome(one.colour, words.bin_by(rule, one.colour)) for one in world.blocks]
        return "failed" if "failed" in outcomes else world.by_rule(rule)

    def plan() -> str:
        return words.plan_text(words.next_subtask(rule, world.blocks))

    return PlayedTask(truth, 60, 60, prompt=told, plan=plan if kind.with_system2 else None)


@dataclass(frozen=True)
class JudgedLook:
    """What was true at one look, and what each monitor said of it."""

    truth: Outcome
    in_bins: bool  # every block lies in a bin, let go or not
    answers: Mapping[str, ModelOutput]


@dataclass(frozen=True)
class Trial:
    """How one seed went."""

    seed: int
    task: str  # in words, "" where the model is told none
    outcome: str  # "done", "failed" or "timeout"
    rounds: int  # until then
    grasps: int  # how often the gripper closed on something or nothing
    why: str  # "" of one that is done
    plans: int = 0
    plans_right: int = 0  # the next subtask
    looks: Sequence[JudgedLook] = field(default=(), repr=False)

    def count(self, holds: Callable[[JudgedLook, ModelOutput], bool], monitor: str = MONITOR) -> int:
        """The looks of which this holds, given what the monitor said of them."""
        return sum(monitor in one.answers and holds(one, one.answers[monitor]) for one in self.looks)

    @property
    def monitor_right(self) -> int:
        """The looks of which the monitor said what was true."""
        return self.count(lambda one, said: said.verdict == one.truth)

    @property
    def false_alarms(self) -> int:
        """The looks of which it said done or failed wrongly."""
        return self.count(lambda one, said: said.verdict not in ("ongoing", one.truth))

    @property
    def early_done(self) -> int:
        """Of these, a done while the released block was still coming to rest in the bin."""
        return self.count(lambda one, said: said.verdict == "done" and one.truth == "ongoing" and one.in_bins)

    def told(self) -> dict[str, Any]:
        """What is written of it."""
        fields = {name: value for name, value in vars(self).items() if name != "looks"}
        return fields | {"monitor_right": self.monitor_right, "false_alarms": self.false_alarms}


class Player:
    """A world, its pictures and the models; plays one episode after another."""

    def __init__(
        self,
        policy: EpisodeModel,
        monitors: Mapping[str, EpisodeModel],
        kind: Kind,
        scene: str = PICK_PLACE,
    ) -> None:
        """`policy` is System 2 as well, where a task has plans."""
        self._policy, self._monitors, self._kind = policy, monitors, kind
        self.world = World(0, scene)
        self._renderer = SceneRenderer(POLICY_CAMERAS, kind.change, scene)

    def close(self) -> None:
        """Free the renderer."""
        self._renderer.close()

    def look(self) -> ModelInput:
        """What the robot would send now."""
        return look(self.world, self._renderer, self._kind.blank)

    def fitting(self, numbers: Sequence[int]) -> list[int]:
        """The seeds of these numbers among all whose cell has a block of the kind, counted from 0."""
        if not self._kind.pale:
            return list(numbers)
        fitting: list[int] = []
        seed = 0
        while len(fitting) <= max(numbers):
            if set(PALE) & {int(one) for one in Variation.of(seed, self.world.scene).block_colour}:
                fitting.append(seed)
            seed += 1
        return [fitting[number] for number in numbers]

    def play(
        self,
        seed: int,
        task_of: Callable[[World, Kind], PlayedTask] | None = None,
        watch: Callable[[World], None] = lambda world: None,
    ) -> Trial:
        """One episode of the kind's task, or of another one. `watch` is called at each look."""
        world = self.world
        world.reset(seed)
        task = (task_of or self._kind.task)(world, self._kind)
        arm, left, prompt = SynchronousArm(world), task.after_end, task.prompt
        arm.wait()
        looks: list[JudgedLook] = []
        rounds, ended, grasps, closed, plans, plans_right = 0, 0, 0, False, 0, 0
        while len(looks) < task.looks:
            truth, seen = task.truth(), self.look()
            watch(world)
            over = truth != "ongoing"
            acting = rounds < task.acts and not (over and left == 0)
            if acting and task.plan is not None and rounds % PLAN_EVERY == 0:
                prompt = self._policy.infer([replace(seen, component="system2", prompt=task.prompt)])[0].text
                plans, plans_right = plans + 1, plans_right + (prompt == task.plan())
            asked = [(self._policy, replace(seen, prompt=prompt))] if acting else []
            asks = replace(seen, component="monitor", prompt=task.question)
            answers = _together([*asked, *((monitor, asks) for monitor in self._monitors.values())])
            verdicts = answers[len(asked) :]
            in_bins = all(world.bin_of(position) >= 0 for position in world.block_positions)
            looks.append(JudgedLook(truth, in_bins, dict(zip(self._monitors, verdicts, strict=True))))
            if over:
                ended, left = ended or rounds, left - 1
            if not acting:
                break
            actions = answers[0].arrays["actions"]
            closes = bool(actions[7, 7] < CLOSED_M)
            grasps, closed = grasps + (closes and not closed), closes
            arm.play(actions)
            arm.wait()
            rounds += 1
        outcome = task.truth()
        why = "" if outcome == "done" else _why(world)
        name = "timeout" if outcome == "ongoing" else outcome
        told = task.prompt
        return Trial(seed, told, name, ended or rounds, grasps, why, plans, plans_right, looks)


def _together(asked: Sequence[tuple[EpisodeModel, ModelInput]]) -> list[ModelOutput]:
    """What the models answer, in order; each is asked once."""
    models = {id(model): model for model, _ in asked}
    answers = {
        key: iter(model.infer([one for other, one in asked if other is model]))
        for key, model in models.items()
    }
    return [next(answers[id(model)]) for model, _ in asked]


def _why(world: World) -> str:
    """Where everything is when an episode did not succeed."""
    colours = world.layout.colour_names
    blocks = [f"{colours[one.colour]} {PLACES[one.place]}" for one in world.blocks]
    offs = [np.round((world.tool_position - one) * 1000) for one in world.block_positions]
    nearest = min(offs, key=lambda off: float(np.linalg.norm(off)))
    return f"{', '.join(blocks)}; the tool is off the nearest by {nearest.astype(int).tolist()} mm"
