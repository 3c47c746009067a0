"""A stand-in for the model that sorts parts."""

from __future__ import annotations

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_sim.cell.expert import expert_chunk
from rosa_sim.cell.layout.hardware import SORT_PARTS
from rosa_sim.training.data.words import (
    ALL_DONE,
    Subtask,
    next_subtask,
    plan_text,
    read_plan,
    read_rule,
)
from tests.system.oracle import Oracle, along


class SortOracle(Oracle):
    """All four components of one robot."""

    scene = SORT_PARTS

    def answer(self, one: ModelInput) -> ModelOutput:
        world = self.world
        if one.component == "safety":
            return ModelOutput(verdict="safe" if world.safe else "unsafe")
        if one.component == "monitor":
            return ModelOutput(verdict=world.by_rule(read_rule(one.prompt)))
        if one.component == "system2":
            return ModelOutput(text=plan_text(next_subtask(read_rule(one.prompt), world.blocks)))
        return along(expert_chunk(world, *self._subtask(one.prompt)), world)

    def _subtask(self, prompt: str) -> Subtask:
        blocks = self.world.blocks
        in_bin = next((block for block in blocks if block.place in ("left", "right")), blocks[0])
        home = (in_bin.colour, 1 if in_bin.place == "right" else 0)  # nothing to do: the arm goes home
        if prompt == ALL_DONE:
            return home
        try:
            return read_plan(prompt) or home
        except ValueError:
            return next_subtask(read_rule(prompt), blocks) or home
