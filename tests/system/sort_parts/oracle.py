"""A stand-in for the model that sorts parts: it answers from the state of the simulated cell, which no model sees."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from rosa_interfaces.msg import WorldState

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput
from rosa_server.models.panda.common import INPUT_SPEC
from rosa_server.models.panda.kinematics import inverse_path
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

LONGEST_S = 60.0  # until the arm node tells the state of the cell


class Oracle:
    """All four components of one robot."""

    input_spec: InputSpec = INPUT_SPEC
    max_batch = 4
    memory_mb = 0.0

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._newest: WorldState | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self) -> None:
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)  # the worker has its own
        self._world = SortWorld()
        self._node = rclpy.create_node("oracle", namespace=self._namespace)
        self._node.create_subscription(WorldState, "world_state", self._on_world, qos_profile_sensor_data)
        executor = SingleThreadedExecutor()
        executor.add_node(self._node)
        until_s = time.monotonic() + LONGEST_S
        while self._newest is None and time.monotonic() < until_s:
            executor.spin_once(timeout_sec=0.1)
        self._thread = threading.Thread(target=self._listen, args=(executor,), daemon=True)
        self._thread.start()

    def _listen(self, executor: SingleThreadedExecutor) -> None:
        while not self._closing.is_set():
            executor.spin_once(timeout_sec=0.1)
        executor.shutdown()
        self._node.destroy_node()

    def warm_up(self) -> None:
        pass

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        rclpy.try_shutdown()

    def _on_world(self, message: WorldState) -> None:
        self._newest = message

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        if self._newest is None:
            raise ValueError("no state of the cell has come")
        self._world.set_state(int(self._newest.seed), np.array(self._newest.qpos))
        return [self._answer(one) for one in batch]

    def _answer(self, one: ModelInput) -> ModelOutput:
        world = self._world
        if one.component == "safety":
            return ModelOutput(verdict="safe" if world.safe else "unsafe")
        if one.component == "monitor":
            return ModelOutput(verdict=world.by_rule(read_rule(one.prompt)))
        if one.component == "system2":
            return ModelOutput(text=plan_text(next_subtask(read_rule(one.prompt), world.blocks)))
        path = subtask_chunk(world, *self._subtask(one.prompt))
        joints = inverse_path(path[None, :, :3], world.joint_position[None])[0]
        actions = np.concatenate([joints, path[:, 3:]], axis=1).astype(np.float32)
        return ModelOutput(arrays={"actions": actions, "step_s": np.array([0.05], np.float32)})

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
