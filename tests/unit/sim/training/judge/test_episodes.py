"""One loop plays every task in every scene; what was said of each look is counted from its trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.panda.kinematics import inverse_path
from rosa_sim.cell.expert import expert_chunk
from rosa_sim.cell.layout.hardware import PICK_PLACE, SORT_PARTS
from rosa_sim.cell.world import World
from rosa_sim.training.data import words
from rosa_sim.training.judge.episodes import (
    JudgedLook,
    Kind,
    PlayedTask,
    Player,
    Trial,
    only_block,
    whole_sort,
)
from rosa_sim.training.judge.limits import NETWORK, SHIPPED, row_of


@dataclass
class Expert:
    """Acts, plans and judges from the world that it is told of; remembers what it was asked together."""

    verdict: str = ""  # what it always says as a monitor, "" for the truth of the cell
    world: World | None = None
    asked: list[list[str]] = field(default_factory=list)

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        self.asked.append([one.component for one in batch])
        return [self._answer(one) for one in batch]

    def _answer(self, one: ModelInput) -> ModelOutput:
        world = self.world
        assert world is not None
        if one.component == "monitor":
            return ModelOutput(verdict=self.verdict or world.outcome())
        if one.component == "system2":
            return ModelOutput(
                text=words.plan_text(words.next_subtask(words.read_rule(one.prompt), world.blocks))
            )
        plan = words.read_plan(one.prompt) if one.prompt else (0, 0)
        last = world.blocks[-1]  # nothing left to do: its own bin, so that the arm goes home
        path = expert_chunk(world, *(plan or (last.colour, words.BINS.index(last.place))))
        joints = inverse_path(path[None, :, :3], world.joint_position[None])[0]
        return ModelOutput(arrays={"actions": np.concatenate([joints, path[:, 3:]], axis=1)})


@pytest.fixture
def played() -> Iterator[object]:
    players: list[Player] = []

    def make(
        kind: Kind, scene: str, judges_itself: bool = False, **monitors: Expert
    ) -> tuple[Player, Expert]:
        expert = Expert()
        player = Player(expert, {"monitor": expert} if judges_itself else monitors, kind, scene)
        for one in (expert, *monitors.values()):
            one.world = player.world
        players.append(player)
        return player, expert

    yield make
    for player in players:
        player.close()


@pytest.mark.slow
def test_with_one_block_and_one_bin_every_look_is_judged_and_two_rounds_follow_the_end(played):
    player, expert = played(Kind("", only_block), PICK_PLACE, monitor=Expert(), pessimist=Expert("failed"))
    trial = player.play(11)
    assert (trial.outcome, trial.why, trial.task, trial.grasps) == ("done", "", "", 1)
    truths = [one.truth for one in trial.looks]
    assert truths == ["ongoing"] * trial.rounds + ["done"] * 3
    assert trial.monitor_right == len(truths) and trial.false_alarms == trial.early_done == 0
    assert trial.count(lambda one, said: said.verdict != one.truth, "pessimist") == len(truths)
    assert expert.asked == [["system1"]] * (len(truths) - 1), "the last look is judged only"
    assert "looks" not in trial.told() and trial.told()["monitor_right"] == len(truths)


@pytest.mark.slow
def test_a_whole_sort_is_planned_every_other_round(played):
    player, expert = played(Kind("", whole_sort, with_system2=True), SORT_PARTS)
    trial = player.play(3)
    rule = words.read_rule(trial.task)
    assert player.world.sorted_by(rule)
    assert trial.outcome == "done", trial.why
    assert trial.plans == trial.plans_right == -(-trial.rounds // 2)
    assert sum(asked == ["system2"] for asked in expert.asked) == trial.plans


def test_a_model_that_acts_and_judges_is_asked_once_and_a_look_after_the_last_act_is_judged(played):
    def short(world: World, kind: Kind) -> PlayedTask:
        return PlayedTask(world.outcome, looks=3, acts=2)

    player, expert = played(Kind("", short), PICK_PLACE, judges_itself=True)
    trial = player.play(5)
    assert expert.asked == [["system1", "monitor"], ["system1", "monitor"], ["monitor"]]
    assert (trial.outcome, trial.rounds, len(trial.looks)) == ("timeout", 2, 3)
    assert trial.why.startswith("vivid on the mat; the tool is off the nearest by [")


def test_the_table_of_limits_counts_rounds_by_what_each_monitor_said() -> None:
    def said(truth, in_bins, shipped, network, text=""):
        answers = {SHIPPED: ModelOutput(verdict=shipped, text=text), NETWORK: ModelOutput(verdict=network)}
        return JudgedLook(truth, in_bins, answers)

    looks = [
        said("ongoing", False, "ongoing", "done", "out of range: too dark: 3"),
        said("ongoing", True, "done", "failed"),
        said("done", True, "done", "done"),
        said("done", True, "ongoing", "done", "out of range: too dark: 4"),
    ]
    row = row_of("dark", [Trial(0, "", "done", 2, 1, "", looks=looks), Trial(1, "", "timeout", 0, 0, "mat")])
    assert (row["cells"], row["successes"], row["rounds"]) == (2, 1, 4)
    assert (row["wrong verdicts, network alone"], row["wrong verdicts, as shipped"]) == (0.5, 0.5)
    assert (row["wrong done, network alone"], row["wrong done, as shipped"]) == (1, 0)
    assert (row["wrong failed, network alone"], row["wrong failed, as shipped"]) == (1, 0)
    assert (row["right done, network alone"], row["right done, as shipped"]) == (2, 1)
    assert row["out of range"] == "too dark: 2"
