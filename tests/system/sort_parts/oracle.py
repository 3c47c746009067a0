"""A stand-in for the model that sorts parts."""

from __future__ import annotations

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_sim.cell.sort_parts.expert import subtask_chunk
from rosa_sim.cell.sort_parts.world import SortWorld
from rosa_sim.training.sort_parts.words import (
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

    def enter(self) -> None:
        self._world = SortWorld()

    def world(self) -> SortWorld:
        return self._world

    def answer(self, one: ModelInput) -> ModelOutput:
        world = self._world
        if one.component == "safety":
            return ModelOutput(verdict="safe" if world.safe else "unsafe")
        if one.component == "monitor":
            return ModelOutput(verdict=world.by_rule(read_rule(one.prompt)))
        if one.component == "system2":
            return ModelOutput(text=plan_text(next_subtask(read_rule(one.prompt), world.blocks)))
        return along(subtask_chunk(world, *self._subtask(one.prompt)), world)

    def _subtask(self, prompt: str) -> Subtask:
        blocks = self._world.blocks
        in_bin = next((block for block in blocks if block.place in ("left", "right")), blocks[0])
        home = (in_bin.colour, 1 if in_bin.place == "right" else 0)  # nothing to do: the arm goes home
        if prompt == ALL_DONE:
            return home
        try:
            return read_plan(prompt) or home
        except ValueError:
            return next_subtask(read_rule(prompt), blocks) or home
